#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/interpreter/mosaic.h"
#include "kernels/interpreter_texts.h"

namespace kinema::interpreter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Expands the abbreviations in the texts below, and adds prefixes to operation names.
std::string expanded(std::string text) {
  const std::string store = "add = false, strides = array<i32>, operandSegmentSizes = array<i32: ";
  const std::pair<std::string, std::string> abbreviations[] = {
      {"VMEM", "#tpu.memory_space<vmem>"},
      {"SMEM", "#tpu.memory_space<smem>"},
      {"STORE2", store + "1, 1, 2, 0>"},
      {"STORE3", store + "1, 1, 3, 0>"},
      {"FP32", "precision = #tpu.contract_precision<fp32>"},
      {"AS_IS", "transpose_lhs = false, transpose_rhs = false"},
      {"\"arith.", "\"stable_mosaic.arith."},
      {"\"math.", "\"stable_mosaic.math."},
      {"\"vector.", "\"stable_mosaic.vector."},
      {"\"tpu.", "\"stable_mosaic.tpu."},
      {"\"scf.", "\"stable_mosaic.scf."},
      {"\"func.", "\"stable_mosaic.func."},
      {"\"memref.", "\"stable_mosaic.memref."}};
  for (const auto& [from, to] : abbreviations) {
    if (text.find(from) != std::string::npos) text = replaced(std::move(text), from, to);
  }
  return text;
}

/// A kernel of one step: %in, %scalars and %out are memrefs of complete arrays, %zero an index.
std::string kernel(const std::string& body, const std::string& in, const std::string& out) {
  const auto memref = [](const std::string& type, const char* space) {
    return "memref<" + type + ", " + space + ">";
  };
  const auto sizes = [](std::string type) {  // 2x3xf32 -> 2, 3
    type.resize(type.rfind('x'));
    return replaced(type, "x", ", ");
  };
  const auto window = [&](const char* transform, const std::string& type) {
    return std::string("{transform_indices = @") + transform +
           ", window_bounds = array<i64: " + sizes(type) + ">}";
  };
  const std::string scalars = memref("2xi32", "SMEM");
  return expanded(R"(module attributes {stable_mosaic.version = 11 : i64} {
  "func.func"() ({
  ^bb0(%step: i32, %scalars: )" +
                  scalars + ", %in: " + memref(in, "VMEM") + ", %out: " + memref(out, "VMEM") +
                  R"():
    %zero = "arith.constant"() {value = 0 : index} : () -> index
    )" + body + R"(
    "func.return"() : () -> ()
  }) {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], function_type = (i32, )" +
                  scalars + ", " + memref(in, "VMEM") + ", " + memref(out, "VMEM") +
                  R"() -> (), iteration_bounds = array<i64: 1>, scalar_prefetch = 1 : i64,
      scratch_operands = 0 : i64, sym_name = "test", tpu.core_type = #tpu.core_type<tc>,
      window_params = [)" +
                  window("whole", in) + ", " + window("whole", out) + R"(]} : () -> ()
  "func.func"() ({
  ^bb0(%step: i32, %scalars: )" +
                  scalars + R"():
    %zero = "arith.constant"() {value = 0 : i32} : () -> i32
    "func.return"(%zero, %zero) : (i32, i32) -> ()
  }) {function_type = (i32, )" +
                  scalars + R"() -> (i32, i32), sym_name = "whole"} : () -> ()
})");
}

// Loads %x : vector<2x4xf32> and stores %y of the given type.
std::vector<float> run_rows(const std::string& body, const std::string& out = "2x4xf32") {
  const std::string memref = "memref<" + out + ", VMEM>";
  const std::string text = kernel(
      R"(%x = "vector.load"(%in, %zero, %zero) : (memref<2x4xf32, VMEM>, index, index) -> vector<2x4xf32>
    )" + body +
          R"(
    "tpu.vector_store"(%y, %out, %zero, %zero) {STORE2} : (vector<)" +
          out + ">, " + memref + ", index, index) -> ()",
      "2x4xf32", out);
  const std::vector<float> x{1, -2, 3, 4, 0.5F, 6, -7, 8};
  const std::vector<int32_t> scalars{3, 5};
  const std::vector<Array> operands{Array::from<int32_t>(DType::S32, {2}, scalars),
                                    Array::f32({2, 4}, x)};
  const bool bf16 = out.ends_with("bf16");
  const auto rows = static_cast<int64_t>(out[0] - '0');
  const auto columns = static_cast<int64_t>(out[2] - '0');
  const std::vector<Shape> results{
      {out.ends_with("i32") ? DType::S32 : (bf16 ? DType::BF16 : DType::F32), {rows, columns}}};
  const Array y = run_mosaic(text, operands, results).at(0);
  if (y.shape.dtype == DType::S32) {
    return {y.as<int32_t>().begin(), y.as<int32_t>().end()};
  }
  const Array wide = convert(y, DType::F32);
  return {wide.as<float>().begin(), wide.as<float>().end()};
}

TEST(MosaicInterpreter, AddsMultipliesAndTakesFunctions) {
  EXPECT_THAT(
      run_rows(
          R"(%two = "arith.constant"() {value = dense<2.0> : vector<2x4xf32>} : () -> vector<2x4xf32>
    %s = "arith.addf"(%x, %two) {fastmath = #arith.fastmath<none>} : (vector<2x4xf32>, vector<2x4xf32>) -> vector<2x4xf32>
    %p = "arith.mulf"(%s, %x) : (vector<2x4xf32>, vector<2x4xf32>) -> vector<2x4xf32>
    %y = "arith.maximumf"(%p, %two) : (vector<2x4xf32>, vector<2x4xf32>) -> vector<2x4xf32>)"),
      ElementsAre(3, 2, 15, 24, 2, 48, 35, 80));
  EXPECT_THAT(run_rows(R"(%a = "math.absf"(%x) : (vector<2x4xf32>) -> vector<2x4xf32>
    %l = "math.log2"(%a) : (vector<2x4xf32>) -> vector<2x4xf32>
    %e = "math.exp2"(%l) : (vector<2x4xf32>) -> vector<2x4xf32>
    %y = "tpu.reciprocal"(%e) {approx = false} : (vector<2x4xf32>) -> vector<2x4xf32>)"),
              ::testing::Pointwise(::testing::FloatNear(1e-6F), {1.0F, 0.5F, 1.0F / 3, 0.25F, 2.0F,
                                                                 1.0F / 6, 1.0F / 7, 0.125F}));
}

TEST(MosaicInterpreter, RoundsToBf16) {
  EXPECT_THAT(run_rows(R"(%c = "arith.constant"() {value = 1.001 : f32} : () -> f32
    %b = "vector.broadcast"(%c) : (f32) -> vector<2x4xf32>
    %p = "arith.mulf"(%x, %b) : (vector<2x4xf32>, vector<2x4xf32>) -> vector<2x4xf32>
    %n = "arith.truncf"(%p) : (vector<2x4xf32>) -> vector<2x4xbf16>
    %y = "arith.addf"(%n, %n) : (vector<2x4xbf16>, vector<2x4xbf16>) -> vector<2x4xbf16>)",
                       "2x4xbf16"),
              ElementsAre(2, -4, 6, 8, 1, 12, -14, 16));
}

TEST(MosaicInterpreter, MovesElements) {
  EXPECT_THAT(
      run_rows(
          R"(%t = "tpu.transpose"(%x) {permutation = array<i64: 1, 0>} : (vector<2x4xf32>) -> vector<4x2xf32>
    %s = "vector.extract_strided_slice"(%t) {offsets = [1, 0], sizes = [3, 2], strides = [1, 1]} : (vector<4x2xf32>) -> vector<3x2xf32>
    %y = "tpu.concatenate"(%s, %s) {dimension = 1 : i32} : (vector<3x2xf32>, vector<3x2xf32>) -> vector<3x4xf32>)",
          "3x4xf32"),
      ElementsAre(-2, 6, -2, 6, 3, -7, 3, -7, 4, 8, 4, 8));
  EXPECT_THAT(
      run_rows(
          R"(%s = "vector.extract_strided_slice"(%x) {offsets = [0, 1], sizes = [2, 1], strides = [1, 1]} : (vector<2x4xf32>) -> vector<2x1xf32>
    %r = "tpu.repeat"(%s) {dimension = 1 : i32, times = 2 : i32} : (vector<2x1xf32>) -> vector<2x2xf32>
    %f = "vector.shape_cast"(%s) : (vector<2x1xf32>) -> vector<1x2xf32>
    %b = "vector.broadcast"(%f) : (vector<1x2xf32>) -> vector<2x2xf32>
    %y = "tpu.concatenate"(%r, %b) {dimension = 1 : i32} : (vector<2x2xf32>, vector<2x2xf32>) -> vector<2x4xf32>)"),
      ElementsAre(-2, -2, -2, 6, 6, 6, -2, 6));
}

TEST(MosaicInterpreter, Reduces) {
  const std::string reduced =
      R"(%i = "arith.constant"() {value = dense<INITIAL> : vector<2xf32>} : () -> vector<2xf32>
    %r = "vector.multi_reduction"(%x, %i) {kind = #vector.kind<KIND>, reduction_dims = array<i64: 1>} : (vector<2x4xf32>, vector<2xf32>) -> vector<2xf32>
    %y = "vector.shape_cast"(%r) : (vector<2xf32>) -> vector<2x1xf32>)";
  EXPECT_THAT(
      run_rows(replaced(replaced(reduced, "INITIAL", "0xFF800000"), "KIND", "maximumf"), "2x1xf32"),
      ElementsAre(4, 8));
  EXPECT_THAT(run_rows(replaced(replaced(reduced, "INITIAL", "1.5"), "KIND", "add"), "2x1xf32"),
              ElementsAre(7.5, 9));
  EXPECT_THAT(
      run_rows(R"(%i = "arith.constant"() {value = dense<0.0> : vector<4xf32>} : () -> vector<4xf32>
    %r = "vector.multi_reduction"(%x, %i) {kind = #vector.kind<add>, reduction_dims = array<i64: 0>} : (vector<2x4xf32>, vector<4xf32>) -> vector<4xf32>
    %y = "vector.shape_cast"(%r) : (vector<4xf32>) -> vector<1x4xf32>)",
               "1x4xf32"),
      ElementsAre(1.5, 4, -4, 12));
}

TEST(MosaicInterpreter, CountsComparesAndSelects) {
  EXPECT_THAT(run_rows(R"(%n = "memref.load"(%scalars, %zero) : (memref<2xi32, SMEM>, index) -> i32
    %two = "arith.constant"() {value = 2 : i32} : () -> i32
    %less = "arith.subi"(%n, %two) {overflowFlags = #arith.overflow<none>} : (i32, i32) -> i32
    %i = "tpu.iota"() {dimensions = array<i32: 1>} : () -> vector<2x4xi32>
    %b = "vector.broadcast"(%less) : (i32) -> vector<2x4xi32>
    %c = "arith.cmpi"(%i, %b) {predicate = 3 : i64} : (vector<2x4xi32>, vector<2x4xi32>) -> vector<2x4xi1>
    %o = "arith.constant"() {value = dense<-9.0> : vector<2x4xf32>} : () -> vector<2x4xf32>
    %y = "arith.select"(%c, %x, %o) : (vector<2x4xi1>, vector<2x4xf32>, vector<2x4xf32>) -> vector<2x4xf32>)"),
              ElementsAre(1, -2, -9, -9, 0.5, 6, -9, -9));
  EXPECT_THAT(run_rows(R"(%i = "tpu.iota"() {dimensions = array<i32: 0>} : () -> vector<2x4xi32>
    %c = "arith.constant"() {value = dense<2147483647> : vector<2x4xi32>} : () -> vector<2x4xi32>
    %s = "arith.addi"(%i, %c) : (vector<2x4xi32>, vector<2x4xi32>) -> vector<2x4xi32>
    %t = "arith.constant"() {value = dense<-1000> : vector<2x4xi32>} : () -> vector<2x4xi32>
    %d = "arith.divsi"(%s, %t) : (vector<2x4xi32>, vector<2x4xi32>) -> vector<2x4xi32>
    %y = "arith.remsi"(%d, %t) : (vector<2x4xi32>, vector<2x4xi32>) -> vector<2x4xi32>)",
                       "2x4xi32"),
              ElementsAre(-483, -483, -483, -483, 483, 483, 483, 483));
}

TEST(MosaicInterpreter, BranchesAndLoopsWithValues) {
  // Each iteration swaps the pair of values and adds row `i` of the input.
  EXPECT_THAT(run_rows(R"(%0 = "arith.constant"() {value = 0 : i32} : () -> i32
    %1 = "arith.constant"() {value = 1 : i32} : () -> i32
    %one = "arith.constant"() {value = 1 : index} : () -> index
    %n = "memref.load"(%scalars, %zero) : (memref<2xi32, SMEM>, index) -> i32
    %a = "arith.constant"() {value = dense<0.0> : vector<1x4xf32>} : () -> vector<1x4xf32>
    %r:2 = "scf.for"(%0, %n, %1, %a, %a) ({
    ^bb0(%i: i32, %p: vector<1x4xf32>, %q: vector<1x4xf32>):
      %first = "arith.cmpi"(%i, %0) {predicate = 0 : i64} : (i32, i32) -> i1
      %at = "scf.if"(%first) ({
        "scf.yield"(%zero) : (index) -> ()
      }, {
        "scf.yield"(%one) : (index) -> ()
      }) : (i1) -> index
      %row = "vector.load"(%in, %at, %zero) : (memref<2x4xf32, VMEM>, index, index) -> vector<1x4xf32>
      %s = "arith.addf"(%p, %row) : (vector<1x4xf32>, vector<1x4xf32>) -> vector<1x4xf32>
      "scf.yield"(%q, %s) : (vector<1x4xf32>, vector<1x4xf32>) -> ()
    }) : (i32, i32, i32, vector<1x4xf32>, vector<1x4xf32>) -> (vector<1x4xf32>, vector<1x4xf32>)
    %y = "tpu.concatenate"(%r#0, %r#1) {dimension = 0 : i32} : (vector<1x4xf32>, vector<1x4xf32>) -> vector<2x4xf32>)"),
              ElementsAre(0.5, 6, -7, 8, 1.5, 4, -4, 12));
}

TEST(MosaicInterpreter, MultipliesInBf16UnlessToldOtherwise) {
  const std::string product =
      R"(%z = "arith.constant"() {value = dense<0.0> : vector<2x2xf32>} : () -> vector<2x2xf32>
    %c = "arith.constant"() {value = dense<1.001> : vector<2x4xf32>} : () -> vector<2x4xf32>
    %y = "tpu.matmul"(%x, %c, %z) {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, AS_IS} : (vector<2x4xf32>, vector<2x4xf32>, vector<2x2xf32>) -> vector<2x2xf32>)";
  EXPECT_THAT(run_rows(product, "2x2xf32"), ElementsAre(6, 6, 7.5, 7.5));
  EXPECT_THAT(run_rows(replaced(product, "AS_IS", "FP32, AS_IS"), "2x2xf32"),
              ::testing::Each(::testing::AnyOf(::testing::FloatNear(6.006F, 1e-6F),
                                               ::testing::FloatNear(7.5075F, 1e-6F))));
}

// A flash forward kernel like kinema's: q [2, 32, 8] in blocks of 16, k and v [2, 48, 8] in blocks
// of 16 with the first 40 keys valid, y and log-sum-exp.
const std::string& flash() {
  static const std::string text = expanded(R"(module attributes {stable_mosaic.version = 11 : i64} {
  "func.func"() ({
  ^bb0(%h: i32, %i: i32, %j: i32, %keys: memref<1xi32, SMEM>, %q: memref<1x16x8xf32, VMEM>, %k: memref<1x16x8xf32, VMEM>, %v: memref<1x16x8xf32, VMEM>, %y: memref<1x16x8xf32, VMEM>, %lse: memref<1x1x16xf32, VMEM>, %m: memref<16x1xf32, VMEM>, %l: memref<16x1xf32, VMEM>, %a: memref<16x8xf32, VMEM>):
    %0 = "arith.constant"() {value = 0 : index} : () -> index
    %1 = "arith.constant"() {value = 0 : i32} : () -> i32
    %2 = "arith.cmpi"(%j, %1) {predicate = 0 : i64} : (i32, i32) -> i1
    "scf.if"(%2) ({
      %3 = "arith.constant"() {value = -2.0e+38 : f32} : () -> f32
      %4 = "vector.broadcast"(%3) : (f32) -> vector<16x1xf32>
      "tpu.vector_store"(%4, %m, %0, %0) {STORE2} : (vector<16x1xf32>, memref<16x1xf32, VMEM>, index, index) -> ()
      %5 = "arith.constant"() {value = dense<0.0> : vector<16x1xf32>} : () -> vector<16x1xf32>
      "tpu.vector_store"(%5, %l, %0, %0) {STORE2} : (vector<16x1xf32>, memref<16x1xf32, VMEM>, index, index) -> ()
      %6 = "arith.constant"() {value = dense<0.0> : vector<16x8xf32>} : () -> vector<16x8xf32>
      "tpu.vector_store"(%6, %a, %0, %0) {STORE2} : (vector<16x8xf32>, memref<16x8xf32, VMEM>, index, index) -> ()
      "scf.yield"() : () -> ()
    }, {
      "scf.yield"() : () -> ()
    }) : (i1) -> ()
    %10 = "vector.load"(%q, %0, %0, %0) : (memref<1x16x8xf32, VMEM>, index, index, index) -> vector<1x16x8xf32>
    %11 = "vector.shape_cast"(%10) : (vector<1x16x8xf32>) -> vector<16x8xf32>
    %12 = "vector.load"(%k, %0, %0, %0) : (memref<1x16x8xf32, VMEM>, index, index, index) -> vector<1x16x8xf32>
    %13 = "vector.shape_cast"(%12) : (vector<1x16x8xf32>) -> vector<16x8xf32>
    %14 = "arith.constant"() {value = dense<0.0> : vector<16x16xf32>} : () -> vector<16x16xf32>
    %15 = "tpu.matmul"(%11, %13, %14) {dimension_numbers = #tpu.dot_dimension_numbers<[1], [1], [0], [0], [0, 0, 1, 0], [], []>, FP32, AS_IS} : (vector<16x8xf32>, vector<16x8xf32>, vector<16x16xf32>) -> vector<16x16xf32>
    %16 = "arith.constant"() {value = dense<0.5> : vector<16x16xf32>} : () -> vector<16x16xf32>
    %17 = "arith.mulf"(%15, %16) : (vector<16x16xf32>, vector<16x16xf32>) -> vector<16x16xf32>
    %18 = "arith.constant"() {value = 16 : i32} : () -> i32
    %19 = "arith.muli"(%j, %18) : (i32, i32) -> i32
    %20 = "memref.load"(%keys, %0) : (memref<1xi32, SMEM>, index) -> i32
    %21 = "arith.subi"(%20, %19) : (i32, i32) -> i32
    %22 = "vector.broadcast"(%21) : (i32) -> vector<16x16xi32>
    %23 = "tpu.iota"() {dimensions = array<i32: 1>} : () -> vector<16x16xi32>
    %24 = "arith.cmpi"(%23, %22) {predicate = 2 : i64} : (vector<16x16xi32>, vector<16x16xi32>) -> vector<16x16xi1>
    %25 = "arith.constant"() {value = dense<-2.0e+38> : vector<16x16xf32>} : () -> vector<16x16xf32>
    %26 = "arith.select"(%24, %17, %25) : (vector<16x16xi1>, vector<16x16xf32>, vector<16x16xf32>) -> vector<16x16xf32>
    %27 = "arith.constant"() {value = dense<0xFF800000> : vector<16xf32>} : () -> vector<16xf32>
    %28 = "vector.multi_reduction"(%26, %27) {kind = #vector.kind<maximumf>, reduction_dims = array<i64: 1>} : (vector<16x16xf32>, vector<16xf32>) -> vector<16xf32>
    %29 = "vector.shape_cast"(%28) : (vector<16xf32>) -> vector<16x1xf32>
    %30 = "vector.load"(%m, %0, %0) : (memref<16x1xf32, VMEM>, index, index) -> vector<16x1xf32>
    %31 = "arith.maximumf"(%30, %29) : (vector<16x1xf32>, vector<16x1xf32>) -> vector<16x1xf32>
    %32 = "vector.broadcast"(%31) : (vector<16x1xf32>) -> vector<16x16xf32>
    %33 = "arith.subf"(%26, %32) : (vector<16x16xf32>, vector<16x16xf32>) -> vector<16x16xf32>
    %34 = "math.exp"(%33) : (vector<16x16xf32>) -> vector<16x16xf32>
    %35 = "arith.subf"(%30, %31) : (vector<16x1xf32>, vector<16x1xf32>) -> vector<16x1xf32>
    %36 = "math.exp"(%35) : (vector<16x1xf32>) -> vector<16x1xf32>
    %37 = "arith.constant"() {value = dense<0.0> : vector<16xf32>} : () -> vector<16xf32>
    %38 = "vector.multi_reduction"(%34, %37) {kind = #vector.kind<add>, reduction_dims = array<i64: 1>} : (vector<16x16xf32>, vector<16xf32>) -> vector<16xf32>
    %39 = "vector.shape_cast"(%38) : (vector<16xf32>) -> vector<16x1xf32>
    %40 = "vector.load"(%l, %0, %0) : (memref<16x1xf32, VMEM>, index, index) -> vector<16x1xf32>
    %41 = "arith.mulf"(%36, %40) : (vector<16x1xf32>, vector<16x1xf32>) -> vector<16x1xf32>
    %42 = "arith.addf"(%41, %39) : (vector<16x1xf32>, vector<16x1xf32>) -> vector<16x1xf32>
    %43 = "vector.load"(%v, %0, %0, %0) : (memref<1x16x8xf32, VMEM>, index, index, index) -> vector<1x16x8xf32>
    %44 = "vector.shape_cast"(%43) : (vector<1x16x8xf32>) -> vector<16x8xf32>
    %45 = "arith.constant"() {value = dense<0.0> : vector<16x8xf32>} : () -> vector<16x8xf32>
    %46 = "tpu.matmul"(%34, %44, %45) {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, FP32, AS_IS} : (vector<16x16xf32>, vector<16x8xf32>, vector<16x8xf32>) -> vector<16x8xf32>
    %47 = "vector.load"(%a, %0, %0) : (memref<16x8xf32, VMEM>, index, index) -> vector<16x8xf32>
    %48 = "vector.broadcast"(%36) : (vector<16x1xf32>) -> vector<16x8xf32>
    %49 = "arith.mulf"(%48, %47) : (vector<16x8xf32>, vector<16x8xf32>) -> vector<16x8xf32>
    %50 = "arith.addf"(%49, %46) : (vector<16x8xf32>, vector<16x8xf32>) -> vector<16x8xf32>
    "tpu.vector_store"(%31, %m, %0, %0) {STORE2} : (vector<16x1xf32>, memref<16x1xf32, VMEM>, index, index) -> ()
    "tpu.vector_store"(%42, %l, %0, %0) {STORE2} : (vector<16x1xf32>, memref<16x1xf32, VMEM>, index, index) -> ()
    "tpu.vector_store"(%50, %a, %0, %0) {STORE2} : (vector<16x8xf32>, memref<16x8xf32, VMEM>, index, index) -> ()
    %51 = "arith.constant"() {value = 2 : i32} : () -> i32
    %52 = "arith.cmpi"(%j, %51) {predicate = 0 : i64} : (i32, i32) -> i1
    "scf.if"(%52) ({
      %53 = "vector.broadcast"(%42) : (vector<16x1xf32>) -> vector<16x8xf32>
      %54 = "arith.divf"(%50, %53) : (vector<16x8xf32>, vector<16x8xf32>) -> vector<16x8xf32>
      %55 = "vector.shape_cast"(%54) : (vector<16x8xf32>) -> vector<1x16x8xf32>
      "tpu.vector_store"(%55, %y, %0, %0, %0) {STORE3} : (vector<1x16x8xf32>, memref<1x16x8xf32, VMEM>, index, index, index) -> ()
      %56 = "math.log"(%42) : (vector<16x1xf32>) -> vector<16x1xf32>
      %57 = "arith.addf"(%31, %56) : (vector<16x1xf32>, vector<16x1xf32>) -> vector<16x1xf32>
      %58 = "tpu.transpose"(%57) {permutation = array<i64: 1, 0>} : (vector<16x1xf32>) -> vector<1x16xf32>
      %59 = "vector.shape_cast"(%58) : (vector<1x16xf32>) -> vector<1x1x16xf32>
      "tpu.vector_store"(%59, %lse, %0, %0, %0) {STORE3} : (vector<1x1x16xf32>, memref<1x1x16xf32, VMEM>, index, index, index) -> ()
      "scf.yield"() : () -> ()
    }, {
      "scf.yield"() : () -> ()
    }) : (i1) -> ()
    "func.return"() : () -> ()
  }) {dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>], function_type = (i32, i32, i32, memref<1xi32, SMEM>, memref<1x16x8xf32, VMEM>, memref<1x16x8xf32, VMEM>, memref<1x16x8xf32, VMEM>, memref<1x16x8xf32, VMEM>, memref<1x1x16xf32, VMEM>, memref<16x1xf32, VMEM>, memref<16x1xf32, VMEM>, memref<16x8xf32, VMEM>) -> (), iteration_bounds = array<i64: 2, 2, 3>, scalar_prefetch = 1 : i64, scratch_operands = 3 : i64, sym_name = "flash", tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @queries, window_bounds = array<i64: 1, 16, 8>}, {transform_indices = @of_keys, window_bounds = array<i64: 1, 16, 8>}, {transform_indices = @of_keys, window_bounds = array<i64: 1, 16, 8>}, {transform_indices = @queries, window_bounds = array<i64: 1, 16, 8>}, {transform_indices = @row, window_bounds = array<i64: 1, 1, 16>}]} : () -> ()
  "func.func"() ({
  ^bb0(%h: i32, %i: i32, %j: i32, %keys: memref<1xi32, SMEM>):
    %0 = "arith.constant"() {value = 0 : i32} : () -> i32
    "func.return"(%h, %i, %0) : (i32, i32, i32) -> ()
  }) {function_type = (i32, i32, i32, memref<1xi32, SMEM>) -> (i32, i32, i32), sym_name = "queries"} : () -> ()
  "func.func"() ({
  ^bb0(%h: i32, %i: i32, %j: i32, %keys: memref<1xi32, SMEM>):
    %0 = "arith.constant"() {value = 0 : i32} : () -> i32
    "func.return"(%h, %j, %0) : (i32, i32, i32) -> ()
  }) {function_type = (i32, i32, i32, memref<1xi32, SMEM>) -> (i32, i32, i32), sym_name = "of_keys"} : () -> ()
  "func.func"() ({
  ^bb0(%h: i32, %i: i32, %j: i32, %keys: memref<1xi32, SMEM>):
    %0 = "arith.constant"() {value = 0 : i32} : () -> i32
    "func.return"(%h, %0, %i) : (i32, i32, i32) -> ()
  }) {function_type = (i32, i32, i32, memref<1xi32, SMEM>) -> (i32, i32, i32), sym_name = "row"} : () -> ()
})");
  return text;
}

constexpr int32_t kKeys = 40;

std::vector<Array> flash_operands() {
  std::vector<Array> out{Array::from<int32_t>(DType::S32, {1}, std::span(&kKeys, 1))};
  out.push_back(normal({2, 32, 8}, 1));
  out.push_back(normal({2, 48, 8}, 2));
  out.push_back(normal({2, 48, 8}, 3));
  return out;
}

std::vector<Array> run_flash(const std::string& text) {
  const std::vector<Shape> results{{DType::F32, {2, 32, 8}}, {DType::F32, {2, 1, 32}}};
  return run_mosaic(text, flash_operands(), results);
}

// Sums of 40 and 8 products in f32: some 10 roundings of 2^-24 of numbers up to 3.
constexpr double kF32 = 2e-6;

TEST(MosaicInterpreter, RunsFlashAttention) {
  const std::vector<Array> x = flash_operands();
  const Attention expected = attention(x[1], x[2], x[3], 0.5, kKeys);
  const std::vector<Array> results = run_flash(flash());
  EXPECT_LT(largest_difference(results[0], expected.y), kF32);
  EXPECT_LT(largest_difference(results[1], expected.lse), kF32);
}

class DamagedMosaic : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedMosaic, Shows) {
  const Damage& damage = GetParam();
  const std::string text = replaced(flash(), damage.from, damage.to);
  if (std::string_view(damage.error).empty()) {
    const std::vector<Array> x = flash_operands();
    const Attention expected = attention(x[1], x[2], x[3], 0.5, kKeys);
    EXPECT_GT(largest_difference(run_flash(text)[0], expected.y), kF32);
  } else {
    EXPECT_THAT([&] { run_flash(text); }, ThrowsMessage<Error>(HasSubstr(damage.error)));
  }
}

#define OP(name) "\"stable_mosaic." name "\""

INSTANTIATE_TEST_SUITE_P(
    All, DamagedMosaic,
    ::testing::Values(
        Damage{"WrongPredicate", "predicate = 2", "predicate = 4"},
        Damage{"MaskOneTooFar", "predicate = 2", "predicate = 3"},
        Damage{"MissingMask", OP("arith.subf") "(%26, %32)", OP("arith.subf") "(%17, %32)"},
        Damage{"MaskOfTheOtherDimension", "dimensions = array<i32: 1>",
               "dimensions = array<i32: 0>"},
        Damage{"MinimumForMaximum", "maximumf\"(%30", "minimumf\"(%30"},
        Damage{"PreviousSumNotScaled", OP("arith.addf") "(%41", OP("arith.addf") "(%40"},
        Damage{"NoPrecision", "precision = #tpu.contract_precision<fp32>, ", ""},
        Damage{"ScratchNotInitialised", OP("tpu.vector_store") "(%5, %l",
               OP("tpu.vector_store") "(%5, %m"},
        Damage{"InitialisedAtAnotherStep", "%1 = " OP("arith.constant") "() {value = 0",
               "%1 = " OP("arith.constant") "() {value = 7"},
        Damage{"ResultNeverStored", "value = 2 : i32", "value = 3 : i32"},
        Damage{"WindowOfKeysFollowsQueries", "(%h, %j, %0)", "(%h, %i, %0)"},
        Damage{"KeysCalledParallel", "<arbitrary>, #tpu.dimension_semantics<arbitrary>]",
               "<arbitrary>, #tpu.dimension_semantics<parallel>]", "written a second time"},
        Damage{"AllCalledParallel", "<arbitrary>", "<parallel>", "written a second time"},
        Damage{"ResultFollowsKeys", "(%h, %i, %0)", "(%h, %j, %0)", "is beyond [2,32,8]"},
        Damage{"ResultWrittenTwice", "(%h, %i, %0)", "(%0, %i, %0)", "written a second time"},
        Damage{"AccessBeyondTheMemory", "value = 0 : index", "value = 1 : index",
               "[1,1] + [16,1] is beyond scratch 0 of [16,1]"},
        Damage{"InputStoredTo", OP("tpu.vector_store") "(%55, %y",
               OP("tpu.vector_store") "(%55, %q", "window 0 is stored to"},
        Damage{"TransposedDimensionNumbers", "<[1], [0], [0], [1], [0, 0, 1, 1], [], []>",
               "<[1], [1], [0], [0], [0, 0, 1, 0], [], []>", "summed over"},
        Damage{"InconsistentDimensionNumbers", "[0, 0, 1, 1], [], []>", "[0, 0, 1, 0], [], []>",
               "dimension_numbers"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Unreadable, DamagedMosaic,
    ::testing::Values(
        Damage{"UndefinedValue", "(%30, %29)", "(%30, %99)", "line 40: %99 is not defined here"},
        Damage{"ValueOfAnotherRegion", "(%30, %29)", "(%5, %29)", "%5 is not defined here"},
        Damage{"ValueDefinedTwice", "%29 =", "%28 =", "%28 is defined twice"},
        Damage{"UseWithAnotherType", "(%30, %29)", "(%30, %26)",
               "operand 1 is used as vector<16x1xf32> but is vector<16x16xf32>"},
        Damage{"AnotherResultType", "{permutation = array<i64: 1, 0>}",
               "{permutation = array<i64: 0, 1>}",
               "its result is vector<16x1xf32> but is declared as vector<1x16xf32>"},
        Damage{"UnknownOperation", "math.exp", "math.expo", "no rule for this operation"},
        Damage{"OperationWithoutPrefix", OP("math.log"), "\"math.log\"", "does not begin with"},
        Damage{"NoVersion", "stable_mosaic.version", "version", "stable_mosaic.version is missing"},
        Damage{"NoFunctionType", "function_type", "type", "`function_type` is missing"},
        Damage{"AnotherFunctionType", "function_type = (i32, i32, i32,",
               "function_type = (i32, i32, i64,", "function_type is"},
        Damage{"NoCoreType", "tpu.core_type =", "tpu.core =", "`tpu.core_type` is missing"},
        Damage{"NoSemantics",
               "dimension_semantics = ", "semantics = ", "`dimension_semantics` is missing"},
        Damage{"NoWindows", "window_params", "windows", "`window_params` is missing"},
        Damage{"NoSegments", "operandSegmentSizes", "segments", "`operandSegmentSizes` is missing"},
        Damage{"WrongSegments", "1, 1, 3, 0", "1, 1, 2, 1", "operandSegmentSizes"},
        Damage{"ScratchMiscounted", "scratch_operands = 3", "scratch_operands = 2", "arguments"},
        Damage{"AnotherBlock", "window_bounds = array<i64: 1, 1, 16>",
               "window_bounds = array<i64: 1, 1, 32>", "window 4"},
        Damage{"NoSuchFunction", "@row", "@line", "no function @line"}),
    [](const auto& info) { return info.param.name; });

TEST(MosaicInterpreter, WantsOperandsThatFit) {
  std::vector<Array> operands = flash_operands();
  const std::vector<Shape> results{{DType::F32, {2, 32, 8}}, {DType::F32, {2, 1, 32}}};
  operands[1] = convert(operands[1], DType::BF16);
  EXPECT_THAT([&] { run_mosaic(flash(), operands, results); },
              ThrowsMessage<Error>(HasSubstr("window 0: blocks [1,16,8] of bf16[2,32,8]")));
  operands.pop_back();
  EXPECT_THAT([&] { run_mosaic(flash(), operands, results); },
              ThrowsMessage<Error>(HasSubstr("3 operands and 2 results")));
}

TEST(MosaicInterpreter, ReadsNothingBeyondAnArray) {
  // 28 of 32 queries: rows beyond are NaN inside, and do not reach the result.
  std::vector<Array> x = flash_operands();
  x[1] = normal({2, 28, 8}, 4);
  const std::vector<Shape> results{{DType::F32, {2, 28, 8}}, {DType::F32, {2, 1, 28}}};
  const Attention expected = attention(x[1], x[2], x[3], 0.5, kKeys);
  EXPECT_LT(largest_difference(run_mosaic(flash(), x, results)[0], expected.y), kF32);
  // 44 keys: the ones beyond are masked in the scores, but 0 x NaN in v is NaN.
  x[2] = normal({2, 44, 8}, 5);
  x[3] = normal({2, 44, 8}, 6);
  EXPECT_TRUE(std::isinf(largest(run_mosaic(flash(), x, results)[0])));
}

TEST(MosaicInterpreter, DoesNotCrashOnAnyText) {
  const std::string& text = flash();
  for (size_t length = 0; length + 1 < text.size(); length += 101) {
    EXPECT_THROW(run_flash(text.substr(0, length)), Error) << length;
  }
  for (int seed = 0; seed < 300; ++seed) {
    try {
      run_flash(with_one_mark_changed(text, seed));
    } catch (
        const Error&) {  // expected, unless the text still has the same or another valid meaning
    }
  }
}

}  // namespace
}  // namespace kinema::interpreter
