#include "kernels/interpreter/mlir_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kinema/core/error.h"

namespace kinema::interpreter {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(MlirText, ReadsAttributesAndTypes) {
  const Module module = read_mlir(R"(// a comment
module @name attributes {a.b = -3 : i64} {
  %0:2, %1 = "test.op"() <{f = 0xFF800000 : f32, h = dense<0x7FC0> : tensor<2x3xbf16>, t}> ({
  ^bb0(%x: !tt.ptr<f16>, %y: tensor<4x!tt.ptr<f32>>):
    %2 = "test.inner"(%x) {s = "a\22b\0A", v = [@f, {c = true}], w = array<i32>} : (!tt.ptr<f16>) -> i1
  }, {}) {n = 1.5e-3 : f32, d = #tpu.dot<[1], [0, 2], []>, m = memref<8x2xi8, #tpu.memory_space<smem>>} : () -> (i32, index, i64)
})");
  EXPECT_EQ(module.attributes.at("a.b").integer, -3);
  ASSERT_EQ(module.functions.size(), 1U);
  const Operation& op = module.functions[0].operation;
  EXPECT_EQ(op.results.size(), 3U);
  EXPECT_EQ(op.line, 3);
  EXPECT_EQ(op.attributes.at("f").number, -INFINITY);
  EXPECT_TRUE(std::isnan(op.attributes.at("h").items.at(0).number));
  EXPECT_EQ(op.attributes.at("t").kind, Attribute::Kind::UNIT);
  EXPECT_EQ(op.attributes.at("n").number, 1.5e-3);
  EXPECT_EQ(op.attributes.at("d").items.at(1).items.at(1).integer, 2);
  EXPECT_EQ(to_string(op.attributes.at("m").types.at(0)), "memref<8x2xi8, smem>");
  EXPECT_EQ(to_string(module.functions[0].types(op.regions[0].arguments)),
            "(!tt.ptr<f16>, tensor<4x!tt.ptr<f32>>)");
  const Operation& inner = op.regions[0].operations[0];
  EXPECT_EQ(inner.attributes.at("s").text, "a\"b\n");
  EXPECT_EQ(inner.attributes.at("v").items[1].fields.at("c").integer, 1);
}

TEST(MlirText, NamesTheLineItCannotRead) {
  const auto error_of = [](const std::string& op) {
    return [op] { read_mlir("module {\n  " + op + "\n}"); };
  };
  const auto message = [](const char* part) { return ThrowsMessage<Error>(HasSubstr(part)); };
  EXPECT_THAT(error_of("%0 = arith.addi %1, %1 : i32"), message("line 2: an operation in the gen"));
  EXPECT_THAT(error_of(R"(%0 = "a"() : () -> f64)"), message("line 2: element type `f64`"));
  EXPECT_THAT(error_of(R"("a"() {v = 300 : i8} : () -> ())"), message("300 is not of type i8"));
  EXPECT_THAT(error_of(R"("a"() {v = 1 : f32} : () -> ())"), message("a point is missing"));
  EXPECT_THAT(error_of(R"("a"() {v = dense<1.0> : vector<2xi32>} : () -> ())"), message("is no"));
  EXPECT_THAT(error_of(R"("a"() {v = 1, v = 2} : () -> ())"), message("attribute `v` twice"));
  EXPECT_THAT(error_of(R"(%0:2 = "a"() : () -> i32)"), message("2 results and 1 types"));
  EXPECT_THAT(error_of(R"(%0 = "a"() : () -> tensor<99999x99999xf32>)"), message("elements"));
  EXPECT_THAT(error_of(R"("a"() {v = )" + std::string(100000, '[')), message("in one another"));
}

}  // namespace
}  // namespace kinema::interpreter
