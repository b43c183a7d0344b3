#include "kernels/interpreter/handlers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/interpreter_texts.h"
#include "kinema/graph/body.h"
#include "kinema/graph/custom_call.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/kernel_text.h"
#include "kinema/kernels/rewrite.h"
#include "kinema/runtime/program.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::interpreter {
namespace {

using kernels::KernelText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// y = x + x, for f32 [4, 2], a row per step.
constexpr const char* kMosaic = R"(module attributes {stable_mosaic.version = 11 : i64} {
  "stable_mosaic.func.func"() ({
  ^bb0(%i: i32, %in: memref<1x2xf32, #tpu.memory_space<vmem>>, %out: memref<1x2xf32, #tpu.memory_space<vmem>>):
    %0 = "stable_mosaic.arith.constant"() {value = 0 : index} : () -> index
    %1 = "stable_mosaic.vector.load"(%in, %0, %0) : (memref<1x2xf32, #tpu.memory_space<vmem>>, index, index) -> vector<1x2xf32>
    %2 = "stable_mosaic.arith.addf"(%1, %1) : (vector<1x2xf32>, vector<1x2xf32>) -> vector<1x2xf32>
    "stable_mosaic.tpu.vector_store"(%2, %out, %0, %0) {add = false, operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>} : (vector<1x2xf32>, memref<1x2xf32, #tpu.memory_space<vmem>>, index, index) -> ()
    "stable_mosaic.func.return"() : () -> ()
  }) {dimension_semantics = [#tpu.dimension_semantics<parallel>], function_type = (i32, memref<1x2xf32, #tpu.memory_space<vmem>>, memref<1x2xf32, #tpu.memory_space<vmem>>) -> (), iteration_bounds = array<i64: 4>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, sym_name = "twice", tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @row, window_bounds = array<i64: 1, 2>}, {transform_indices = @row, window_bounds = array<i64: 1, 2>}]} : () -> ()
  "stable_mosaic.func.func"() ({
  ^bb0(%i: i32):
    %0 = "stable_mosaic.arith.constant"() {value = 0 : i32} : () -> i32
    "stable_mosaic.func.return"(%i, %0) : (i32, i32) -> ()
  }) {function_type = (i32) -> (i32, i32), sym_name = "row"} : () -> ()
})";

// The same, two elements per program.
constexpr const char* kTriton = R"("builtin.module"() ({
  "tt.func"() <{function_type = (!tt.ptr<f32>, !tt.ptr<f32>) -> (), sym_name = "twice"}> ({
  ^bb0(%in: !tt.ptr<f32>, %out: !tt.ptr<f32>):
    %i = "tt.get_program_id"() <{axis = 0 : i32}> : () -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %first = "arith.muli"(%i, %two) : (i32, i32) -> i32
    %0 = "tt.splat"(%first) : (i32) -> tensor<2xi32>
    %1 = "tt.make_range"() <{end = 2 : i32, start = 0 : i32}> : () -> tensor<2xi32>
    %at = "arith.addi"(%0, %1) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    %2 = "tt.splat"(%in) : (!tt.ptr<f32>) -> tensor<2x!tt.ptr<f32>>
    %3 = "tt.addptr"(%2, %at) : (tensor<2x!tt.ptr<f32>>, tensor<2xi32>) -> tensor<2x!tt.ptr<f32>>
    %4 = "tt.load"(%3) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<2x!tt.ptr<f32>>) -> tensor<2xf32>
    %5 = "arith.addf"(%4, %4) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %6 = "tt.splat"(%out) : (!tt.ptr<f32>) -> tensor<2x!tt.ptr<f32>>
    %7 = "tt.addptr"(%6, %at) : (tensor<2x!tt.ptr<f32>>, tensor<2xi32>) -> tensor<2x!tt.ptr<f32>>
    "tt.store"(%7, %5) : (tensor<2x!tt.ptr<f32>>, tensor<2xf32>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ())";

KernelText mosaic() { return {.name = "twice", .text = kMosaic}; }
KernelText triton() {
  return {.language = KernelText::Language::TRITON,
          .name = "twice",
          .text = kTriton,
          .grid = {4, 1, 1}};
}

/// A lowering that replaces `twice` by the kernel, as a target's lowering does.
Lowering lowering_of(const KernelText& kernel) {
  return [kernel](const Node& node, Emitter& out) {
    if (node.op != &kCall) return false;
    kernels::emit_replacement(node, out, [&](std::span<const Tensor> in) {
      return custom_call({in.begin(), in.end()}, node.results,
                         {.target = "not of this device",
                          .config = "\"\"",
                          .operand_layouts = {{1, 0}},
                          .kernel = kernel});
    });
    return true;
  };
}

class Interpreters : public pjrt::CpuTest {
 protected:
  /// twice(x) + 1, with `twice` by the kernel.
  static HostArray run(const KernelText& kernel) {
    const pjrt::Client client = pjrt::cpu_client();
    kernels::KernelSet{.handlers = handlers()}.register_with(client.plugin());
    Graph graph;
    const Tensor x = graph.input({DType::F32, {4, 2}});
    const Tensor y = fused("twice", {}, {x}, [](std::span<const Tensor> in) {
      return std::vector<Tensor>{in[0] * 3.0};  // differs from the kernel on purpose
    })[0];
    runtime::ProgramOptions options{.kernels = false};
    options.emit.lowering = interpreting(lowering_of(kernel));
    const std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7};
    return runtime::Program::compile(client, graph, std::vector{y + 1.0}, options)
        .run_on_host(std::vector{HostArray::f32({4, 2}, values)})[0];
  }
};

TEST_F(Interpreters, RunKernelsWithinPrograms) {
  for (const KernelText& kernel : {mosaic(), triton()}) {
    EXPECT_THAT(run(kernel).as<float>(), ElementsAre(1, 3, 5, 7, 9, 11, 13, 15));
  }
}

TEST_F(Interpreters, ReportErrorsToTheProgram) {
  KernelText kernel = mosaic();
  kernel.text = replaced(kernel.text, "(%i, %0) : (i32, i32)", "(%0, %0) : (i32, i32)");
  EXPECT_THAT([&] { run(kernel); }, ThrowsMessage<Error>(HasSubstr("written a second time")));
  kernel = triton();
  kernel.grid[0] = 5;
  EXPECT_THAT([&] { run(kernel); }, ThrowsMessage<Error>(HasSubstr("which has 8")));
}

}  // namespace
}  // namespace kinema::interpreter
