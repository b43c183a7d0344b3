#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/interpreter/triton.h"
#include "kernels/interpreter_texts.h"

namespace kinema::interpreter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using ::testing::ThrowsMessage;

// A function of one program: reads x f32 [8] into %x, and stores %y, of the same size.
std::vector<float> run_row(const std::string& body, const std::string& element = "f32") {
  const std::string text = replaced(R"("builtin.module"() ({
  "tt.func"() <{function_type = (!tt.ptr<f32>, !tt.ptr<OUT>) -> (), sym_name = "row"}> ({
  ^bb0(%in: !tt.ptr<f32>, %out: !tt.ptr<OUT>):
    %i = "tt.make_range"() <{end = 8 : i32, start = 0 : i32}> : () -> tensor<8xi32>
    %p = "tt.splat"(%in) : (!tt.ptr<f32>) -> tensor<8x!tt.ptr<f32>>
    %q = "tt.addptr"(%p, %i) : (tensor<8x!tt.ptr<f32>>, tensor<8xi32>) -> tensor<8x!tt.ptr<f32>>
    %x = "tt.load"(%q) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<8x!tt.ptr<f32>>) -> tensor<8xf32>
    )" + body + R"(
    %r = "tt.splat"(%out) : (!tt.ptr<OUT>) -> tensor<8x!tt.ptr<OUT>>
    %s = "tt.addptr"(%r, %i) : (tensor<8x!tt.ptr<OUT>>, tensor<8xi32>) -> tensor<8x!tt.ptr<OUT>>
    "tt.store"(%s, %y) : (tensor<8x!tt.ptr<OUT>>, tensor<8xOUT>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ())",
                                    "OUT", element);
  const std::vector<float> x{1, -2, 3, 4, 0.5F, 6, -7, 8};
  const std::vector<Array> operands{Array::f32({8}, x)};
  const DType dtype = element == "i32"    ? DType::S32
                      : element == "f16"  ? DType::F16
                      : element == "bf16" ? DType::BF16
                                          : DType::F32;
  const std::vector<Shape> results{{dtype, {8}}};
  const Array y = run_triton(text, "row", {1, 1, 1}, operands, results).at(0);
  if (dtype == DType::S32) return {y.as<int32_t>().begin(), y.as<int32_t>().end()};
  const Array wide = convert(y, DType::F32);
  return {wide.as<float>().begin(), wide.as<float>().end()};
}

TEST(TritonInterpreter, ComputesWithFloats) {
  EXPECT_THAT(
      run_row(
          R"(%a = "arith.mulf"(%x, %x) <{fastmath = #arith.fastmath<none>}> : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %l = "math.log2"(%a) : (tensor<8xf32>) -> tensor<8xf32>
    %h = "arith.constant"() <{value = dense<5.0e-1> : tensor<8xf32>}> : () -> tensor<8xf32>
    %m = "arith.mulf"(%l, %h) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %y = "math.exp2"(%m) : (tensor<8xf32>) -> tensor<8xf32>)"),
      Pointwise(::testing::FloatNear(2e-6F), {1.F, 2.F, 3.F, 4.F, .5F, 6.F, 7.F, 8.F}));
  const std::string narrow =
      R"(%c = "arith.constant"() <{value = dense<1.001> : tensor<8xf32>}> : () -> tensor<8xf32>
    %a = "arith.mulf"(%x, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %y = "arith.truncf"(%a) : (tensor<8xf32>) -> tensor<8xNARROW>)";
  EXPECT_THAT(run_row(replaced(narrow, "NARROW", "bf16"), "bf16"),
              ElementsAre(1, -2, 3, 4, 0.5, 6, -7, 8));
  EXPECT_EQ(run_row(replaced(narrow, "NARROW", "f16"), "f16")[0], 1 + 0x1p-10F);
}

TEST(TritonInterpreter, ComputesWithIntegers) {
  EXPECT_THAT(
      run_row(
          R"(%two = "arith.constant"() <{value = dense<3> : tensor<8xi32>}> : () -> tensor<8xi32>
    %d = "arith.divsi"(%i, %two) : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
    %m = "arith.remsi"(%i, %two) : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
    %l = "arith.minsi"(%d, %m) : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
    %c = "arith.cmpi"(%d, %m) <{predicate = 0 : i64}> : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
    %e = "arith.cmpi"(%i, %two) <{predicate = 5 : i64}> : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
    %b = "arith.andi"(%c, %e) : (tensor<8xi1>, tensor<8xi1>) -> tensor<8xi1>
    %u = "arith.extui"(%b) : (tensor<8xi1>) -> tensor<8xi32>
    %w = "arith.extsi"(%b) : (tensor<8xi1>) -> tensor<8xi32>
    %t = "arith.subi"(%u, %w) : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
    %y = "arith.addi"(%t, %l) : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>)",
          "i32"),
      ElementsAre(0, 0, 0, 0, 3, 1, 0, 1));
  EXPECT_THAT(
      run_row(R"(%c = "arith.constant"() <{value = dense<4> : tensor<8xi32>}> : () -> tensor<8xi32>
    %d = "arith.subi"(%i, %c) : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
    %y = "arith.sitofp"(%d) : (tensor<8xi32>) -> tensor<8xf32>)"),
      ElementsAre(-4, -3, -2, -1, 0, 1, 2, 3));
}

TEST(TritonInterpreter, MovesAndReduces) {
  EXPECT_THAT(run_row(R"(%a = "tt.reshape"(%x) : (tensor<8xf32>) -> tensor<2x4xf32>
    %t = "tt.trans"(%a) <{order = array<i32: 1, 0>}> : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %m = "tt.reduce"(%t) <{axis = 1 : i32}> ({
    ^bb0(%l: f32, %g: f32):
      %z = "arith.maxnumf"(%l, %g) : (f32, f32) -> f32
      "tt.reduce.return"(%z) : (f32) -> ()
    }) : (tensor<4x2xf32>) -> tensor<4xf32>
    %e = "tt.expand_dims"(%m) <{axis = 0 : i32}> : (tensor<4xf32>) -> tensor<1x4xf32>
    %b = "tt.broadcast"(%e) : (tensor<1x4xf32>) -> tensor<2x4xf32>
    %y = "tt.reshape"(%b) : (tensor<2x4xf32>) -> tensor<8xf32>)"),
              ElementsAre(1, 6, 3, 8, 1, 6, 3, 8));
}

TEST(TritonInterpreter, LeavesWhatIsMaskedOffWithoutAValueAsNan) {
  const std::vector<float> y =
      run_row(R"(%c = "arith.constant"() <{value = dense<2> : tensor<8xi32>}> : () -> tensor<8xi32>
    %m = "arith.cmpi"(%i, %c) <{predicate = 2 : i64}> : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
    %y = "tt.load"(%q, %m) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (tensor<8x!tt.ptr<f32>>, tensor<8xi1>) -> tensor<8xf32>)");
  EXPECT_EQ(y[1], -2);
  EXPECT_TRUE(std::isnan(y[2]));
}

TEST(TritonInterpreter, BranchesOnScalars) {
  EXPECT_THAT(run_row(R"(%c = "arith.constant"() <{value = true}> : () -> i1
    %y = "scf.if"(%c) ({
      %d = "arith.addf"(%x, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      "scf.yield"(%d) : (tensor<8xf32>) -> ()
    }, {
      "scf.yield"(%x) : (tensor<8xf32>) -> ()
    }) : (i1) -> tensor<8xf32>)"),
              ElementsAre(2, -4, 6, 8, 1, 12, -14, 16));
}

// A flash forward kernel: q [2, 24, 8] in blocks of 16, k and v [2, 40, 8] in blocks of 16, y and
// log-sum-exp. TPTR and other abbreviations are expanded below.
const std::string& flash() {
  static const std::string text = [] {
    std::string out = R"("builtin.module"() ({
  "tt.func"() <{arg_attrs = [{tt.divisibility = 16 : i32}, {}, {}, {}, {}], function_type = (PTR, PTR, PTR, PTR, PTR) -> (), sym_name = "flash", sym_visibility = "public"}> ({
  ^bb0(%q: PTR, %k: PTR, %v: PTR, %y: PTR, %lse: PTR):
    %block = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %head = "tt.get_program_id"() <{axis = 1 : i32}> : () -> i32
    %wide = "arith.extsi"(%head) : (i32) -> i64
    %16 = "arith.constant"() <{value = 16 : i32}> : () -> i32
    %first = "arith.muli"(%block, %16) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
    %range = "tt.make_range"() <{end = 16 : i32, start = 0 : i32}> : () -> tensor<16xi32>
    %1 = "tt.splat"(%first) : (i32) -> tensor<16xi32>
    %rows = "arith.addi"(%range, %1) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
    %2 = "arith.constant"() <{value = dense<24> : tensor<16xi32>}> : () -> tensor<16xi32>
    %row_is_there = "arith.cmpi"(%rows, %2) <{predicate = 2 : i64}> : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
    %3 = "tt.expand_dims"(%row_is_there) <{axis = 1 : i32}> : (tensor<16xi1>) -> tensor<16x1xi1>
    %q_mask = "tt.broadcast"(%3) : (tensor<16x1xi1>) -> tensor<16x8xi1>
    %width = "arith.constant"() <{value = dense<8> : tensor<16x1xi32>}> : () -> tensor<16x1xi32>
    %4 = "tt.make_range"() <{end = 8 : i32, start = 0 : i32}> : () -> tensor<8xi32>
    %5 = "tt.expand_dims"(%4) <{axis = 0 : i32}> : (tensor<8xi32>) -> tensor<1x8xi32>
    %columns = "tt.broadcast"(%5) : (tensor<1x8xi32>) -> tensor<16x8xi32>
    %6 = "tt.expand_dims"(%rows) <{axis = 1 : i32}> : (tensor<16xi32>) -> tensor<16x1xi32>
    %7 = "arith.muli"(%6, %width) : (tensor<16x1xi32>, tensor<16x1xi32>) -> tensor<16x1xi32>
    %8 = "tt.broadcast"(%7) : (tensor<16x1xi32>) -> tensor<16x8xi32>
    %q_offsets = "arith.addi"(%8, %columns) : (tensor<16x8xi32>, tensor<16x8xi32>) -> tensor<16x8xi32>
    %9 = "arith.constant"() <{value = 192 : i64}> : () -> i64
    %q_start = "arith.muli"(%wide, %9) : (i64, i64) -> i64
    %10 = "tt.addptr"(%q, %q_start) : (PTR, i64) -> PTR
    %11 = "tt.splat"(%10) : (PTR) -> tensor<16x8xPTR>
    %12 = "tt.addptr"(%11, %q_offsets) : (tensor<16x8xPTR>, tensor<16x8xi32>) -> tensor<16x8xPTR>
    %zero = "arith.constant"() <{value = dense<0.0> : TILE}> : () -> TILE
    %queries = "tt.load"(%12, %q_mask, %zero) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<16x8xPTR>, tensor<16x8xi1>, TILE) -> TILE
    %13 = "arith.constant"() <{value = 320 : i64}> : () -> i64
    %k_start = "arith.muli"(%wide, %13) : (i64, i64) -> i64
    %14 = "tt.addptr"(%k, %k_start) : (PTR, i64) -> PTR
    %15 = "tt.addptr"(%v, %k_start) : (PTR, i64) -> PTR
    %k0 = "tt.splat"(%14) : (PTR) -> tensor<16x8xPTR>
    %v0 = "tt.splat"(%15) : (PTR) -> tensor<16x8xPTR>
    %begin = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %end = "arith.constant"() <{value = 40 : i32}> : () -> i32
    %m0 = "arith.constant"() <{value = dense<0xFF800000> : ROW}> : () -> ROW
    %l0 = "arith.constant"() <{value = dense<0.0> : ROW}> : () -> ROW
    %loop:3 = "scf.for"(%begin, %end, %16, %zero, %m0, %l0) ({
    ^bb0(%j: i32, %a: TILE, %m: ROW, %l: ROW):
      %20 = "tt.splat"(%j) : (i32) -> tensor<16xi32>
      %keys = "arith.addi"(%range, %20) : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi32>
      %21 = "tt.splat"(%end) : (i32) -> tensor<16xi32>
      %key_is_there = "arith.cmpi"(%keys, %21) <{predicate = 2 : i64}> : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
      %22 = "tt.expand_dims"(%key_is_there) <{axis = 1 : i32}> : (tensor<16xi1>) -> tensor<16x1xi1>
      %k_mask = "tt.broadcast"(%22) : (tensor<16x1xi1>) -> tensor<16x8xi1>
      %23 = "tt.expand_dims"(%keys) <{axis = 1 : i32}> : (tensor<16xi32>) -> tensor<16x1xi32>
      %24 = "arith.muli"(%23, %width) : (tensor<16x1xi32>, tensor<16x1xi32>) -> tensor<16x1xi32>
      %25 = "tt.broadcast"(%24) : (tensor<16x1xi32>) -> tensor<16x8xi32>
      %26 = "arith.addi"(%25, %columns) : (tensor<16x8xi32>, tensor<16x8xi32>) -> tensor<16x8xi32>
      %27 = "tt.addptr"(%k0, %26) : (tensor<16x8xPTR>, tensor<16x8xi32>) -> tensor<16x8xPTR>
      %28 = "tt.load"(%27, %k_mask, %zero) <{operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<16x8xPTR>, tensor<16x8xi1>, TILE) -> TILE
      %29 = "tt.trans"(%28) <{order = array<i32: 1, 0>}> : (TILE) -> tensor<8x16xf32>
      %30 = "arith.constant"() <{value = dense<0.0> : SCORES}> : () -> SCORES
      %31 = "tt.dot"(%queries, %29, %30) <{inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32}> : (TILE, tensor<8x16xf32>, SCORES) -> SCORES
      %32 = "arith.constant"() <{value = dense<0.5> : SCORES}> : () -> SCORES
      %33 = "arith.mulf"(%31, %32) : (SCORES, SCORES) -> SCORES
      %34 = "tt.expand_dims"(%key_is_there) <{axis = 0 : i32}> : (tensor<16xi1>) -> tensor<1x16xi1>
      %35 = "tt.broadcast"(%34) : (tensor<1x16xi1>) -> tensor<16x16xi1>
      %36 = "arith.constant"() <{value = dense<0xFF800000> : SCORES}> : () -> SCORES
      %37 = "arith.select"(%35, %33, %36) : (tensor<16x16xi1>, SCORES, SCORES) -> SCORES
      %38 = "tt.reduce"(%37) <{axis = 1 : i32}> ({
      ^bb0(%x: f32, %z: f32):
        %most = "arith.maxnumf"(%x, %z) : (f32, f32) -> f32
        "tt.reduce.return"(%most) : (f32) -> ()
      }) : (SCORES) -> ROW
      %39 = "arith.maxnumf"(%m, %38) : (ROW, ROW) -> ROW
      %40 = "arith.subf"(%m, %39) : (ROW, ROW) -> ROW
      %41 = "math.exp"(%40) : (ROW) -> ROW
      %42 = "tt.expand_dims"(%39) <{axis = 1 : i32}> : (ROW) -> tensor<16x1xf32>
      %43 = "tt.broadcast"(%42) : (tensor<16x1xf32>) -> SCORES
      %44 = "arith.subf"(%37, %43) : (SCORES, SCORES) -> SCORES
      %45 = "math.exp"(%44) : (SCORES) -> SCORES
      %46 = "tt.reduce"(%45) <{axis = 1 : i32}> ({
      ^bb0(%x: f32, %z: f32):
        %sum = "arith.addf"(%x, %z) : (f32, f32) -> f32
        "tt.reduce.return"(%sum) : (f32) -> ()
      }) : (SCORES) -> ROW
      %47 = "arith.mulf"(%l, %41) : (ROW, ROW) -> ROW
      %48 = "arith.addf"(%47, %46) : (ROW, ROW) -> ROW
      %49 = "tt.expand_dims"(%41) <{axis = 1 : i32}> : (ROW) -> tensor<16x1xf32>
      %50 = "tt.broadcast"(%49) : (tensor<16x1xf32>) -> TILE
      %51 = "arith.mulf"(%a, %50) : (TILE, TILE) -> TILE
      %52 = "tt.addptr"(%v0, %26) : (tensor<16x8xPTR>, tensor<16x8xi32>) -> tensor<16x8xPTR>
      %53 = "tt.load"(%52, %k_mask, %zero) <{operandSegmentSizes = array<i32: 1, 1, 1>}> : (tensor<16x8xPTR>, tensor<16x8xi1>, TILE) -> TILE
      %54 = "tt.dot"(%45, %53, %51) <{inputPrecision = 2 : i32, maxNumImpreciseAcc = 0 : i32}> : (SCORES, TILE, TILE) -> TILE
      "scf.yield"(%54, %39, %48) : (TILE, ROW, ROW) -> ()
    }) : (i32, i32, i32, TILE, ROW, ROW) -> (TILE, ROW, ROW)
    %60 = "tt.expand_dims"(%loop#2) <{axis = 1 : i32}> : (ROW) -> tensor<16x1xf32>
    %61 = "tt.broadcast"(%60) : (tensor<16x1xf32>) -> TILE
    %62 = "arith.divf"(%loop#0, %61) : (TILE, TILE) -> TILE
    %63 = "tt.addptr"(%y, %q_start) : (PTR, i64) -> PTR
    %64 = "tt.splat"(%63) : (PTR) -> tensor<16x8xPTR>
    %65 = "tt.addptr"(%64, %q_offsets) : (tensor<16x8xPTR>, tensor<16x8xi32>) -> tensor<16x8xPTR>
    "tt.store"(%65, %62, %q_mask) <{cache = 1 : i32, evict = 1 : i32}> : (tensor<16x8xPTR>, TILE, tensor<16x8xi1>) -> ()
    %66 = "math.log"(%loop#2) : (ROW) -> ROW
    %67 = "arith.addf"(%loop#1, %66) : (ROW, ROW) -> ROW
    %68 = "arith.constant"() <{value = 24 : i64}> : () -> i64
    %69 = "arith.muli"(%wide, %68) : (i64, i64) -> i64
    %70 = "tt.addptr"(%lse, %69) : (PTR, i64) -> PTR
    %71 = "tt.splat"(%70) : (PTR) -> tensor<16xPTR>
    %72 = "tt.addptr"(%71, %rows) : (tensor<16xPTR>, tensor<16xi32>) -> tensor<16xPTR>
    "tt.store"(%72, %67, %row_is_there) : (tensor<16xPTR>, ROW, tensor<16xi1>) -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) : () -> ())";
    out = replaced(out, "PTR", "!tt.ptr<f32>");
    out = replaced(out, "TILE", "tensor<16x8xf32>");
    out = replaced(out, "SCORES", "tensor<16x16xf32>");
    return replaced(out, "ROW", "tensor<16xf32>");
  }();
  return text;
}

std::vector<Array> flash_operands() {
  return {normal({2, 24, 8}, 1), normal({2, 40, 8}, 2), normal({2, 40, 8}, 3)};
}

std::vector<Array> run_flash(const std::string& text, std::array<int64_t, 3> grid = {2, 2, 1}) {
  const std::vector<Shape> results{{DType::F32, {2, 24, 8}}, {DType::F32, {2, 1, 24}}};
  return run_triton(text, "flash", grid, flash_operands(), results);
}

Attention expected_flash() {
  const std::vector<Array> x = flash_operands();
  return attention(x[0], x[1], x[2], 0.5, 40);
}

// Sums of 40 and 8 products in f32: some 10 roundings of 2^-24 of numbers up to 3.
constexpr double kF32 = 2e-6;

TEST(TritonInterpreter, RunsFlashAttention) {
  const std::vector<Array> results = run_flash(flash());
  EXPECT_LT(largest_difference(results[0], expected_flash().y), kF32);
  EXPECT_LT(largest_difference(results[1], expected_flash().lse), kF32);
}

TEST(TritonInterpreter, WantsTheGridThatCoversTheResults) {
  EXPECT_TRUE(std::isinf(largest(run_flash(flash(), {2, 1, 1})[0])));
  EXPECT_THAT(
      [] {
        run_flash(flash(), {2, 2, 2});
      },
      ThrowsMessage<Error>(HasSubstr("which program 0 stored already")));
  EXPECT_THAT([] { run_flash(flash(), {2, 3, 1}); }, ThrowsMessage<Error>(HasSubstr("which has")));
  EXPECT_THAT([] { run_flash(flash(), {2, 0, 1}); }, ThrowsMessage<Error>(HasSubstr("a grid of")));
}

class DamagedTriton : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedTriton, Shows) {
  const Damage& damage = GetParam();
  const std::string text = replaced(flash(), damage.from, damage.to);
  if (std::string_view(damage.error).empty()) {
    EXPECT_GT(largest_difference(run_flash(text)[0], expected_flash().y), kF32);
  } else {
    EXPECT_THAT([&] { run_flash(text); }, ThrowsMessage<Error>(HasSubstr(damage.error)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DamagedTriton,
    ::testing::Values(
        Damage{"WrongPredicateOfKeys", "%21) <{predicate = 2", "%21) <{predicate = 3", "which has"},
        Damage{"MissingMaskOfScores", "\"arith.subf\"(%37, %43)", "\"arith.subf\"(%33, %43)"},
        Damage{"MissingMaskOfTheLoad",
               "\"tt.load\"(%27, %k_mask, %zero) <{operandSegmentSizes = array<i32: 1, 1, 1>}> : "
               "(tensor<16x8x!tt.ptr<f32>>, tensor<16x8xi1>, tensor<16x8xf32>)",
               "\"tt.load\"(%27) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : "
               "(tensor<16x8x!tt.ptr<f32>>)",
               "is element 640 of operand 1, which has 640"},
        Damage{"MissingMaskOfTheStore",
               "(%65, %62, %q_mask) <{cache = 1 : i32, evict = 1 : i32}> : "
               "(tensor<16x8x!tt.ptr<f32>>, tensor<16x8xf32>, tensor<16x8xi1>)",
               "(%65, %62) : (tensor<16x8x!tt.ptr<f32>>, tensor<16x8xf32>)", "stored already"},
        Damage{"BlocksOverlap", "value = 16 : i32", "value = 8 : i32", "stored already"},
        Damage{"HeadsOverlap", "value = 192 : i64", "value = 0 : i64", "stored already"},
        Damage{"AxesOfTheGridSwapped", "axis = 0 : i32}> : () -> i32",
               "axis = 2 : i32}> : () -> i32", "stored already"},
        Damage{"Tf32ForF32", "inputPrecision = 2", "inputPrecision = 0"},
        Damage{"LastBlockOfKeysLeftOut", "%end = \"arith.constant\"() <{value = 40",
               "%end = \"arith.constant\"() <{value = 32"},
        Damage{"SumNotScaled", "\"arith.addf\"(%47", "\"arith.addf\"(%l"},
        Damage{"MaximumStartsAtOne", "dense<0xFF800000> : tensor<16xf32>",
               "dense<0x7F800000> : tensor<16xf32>"},
        Damage{"ReducedOverTheOtherAxis", "(%45) <{axis = 1", "(%45) <{axis = 0"},
        Damage{"StoredToAnOperand", "\"tt.addptr\"(%y,", "\"tt.addptr\"(%q,",
               "operand 0 is stored to"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Unreadable, DamagedTriton,
    ::testing::Values(
        Damage{"NotTransposed", "order = array<i32: 1, 0>", "order = array<i32: 0, 1>",
               "its result is tensor<16x8xf32> but is declared as tensor<8x16xf32>"},
        Damage{"OperandsOfAProductSwapped", "\"tt.dot\"(%45, %53,", "\"tt.dot\"(%53, %45,",
               "operand 0 is used as tensor<16x16xf32> but is tensor<16x8xf32>"},
        Damage{"UndefinedValue", "(%m, %38)", "(%m, %99)", "%99 is not defined here"},
        Damage{"ValueOfTheLoopOutsideOfIt", "(%loop#1, %66)", "(%39, %66)",
               "%39 is not defined here"},
        Damage{"NoSegments", "operandSegmentSizes", "segments", "`operandSegmentSizes` is missing"},
        Damage{"WrongSegments", "1, 1, 1>", "1, 1, 0>", "operandSegmentSizes [1,1,0] of 3"},
        Damage{"NoFunctionType", "function_type", "type", "`function_type` is missing"},
        Damage{"NoOrder", "order = ", "permutation = ", "`order` is missing"},
        Damage{"NoPowerOfTwo", "16x", "24x", "not a tensor of a power of two elements"},
        Damage{"YieldsTooLittle", "(%54, %39, %48) : (tensor<16x8xf32>, tensor<16xf32>, ",
               "(%54, %39) : (tensor<16x8xf32>, ", "it carries"},
        Damage{"UnknownPrecision", "inputPrecision = 2", "inputPrecision = 9", "inputPrecision 9"},
        Damage{"UnknownOperation", "math.log", "math.logarithm", "no rule for this operation"}),
    [](const auto& info) { return info.param.name; });

TEST(TritonInterpreter, DoesNotCrashOnAnyText) {
  for (size_t length = 0; length + 1 < flash().size(); length += 101) {
    EXPECT_THROW(run_flash(flash().substr(0, length)), Error) << length;
  }
  for (int seed = 0; seed < 300; ++seed) {
    try {
      run_flash(with_one_mark_changed(flash(), seed));
    } catch (
        const Error&) {  // expected, unless the text still has the same or another valid meaning
    }
  }
}

}  // namespace
}  // namespace kinema::interpreter
