#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kinema/graph/autodiff.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/scan.h"
#include "kinema/optimizers/adamw.h"
#include "planning/narrow_products.h"

/// Compiled programs whose arguments are in host memory.
namespace kinema::planning {

constexpr int64_t kLayers = 12;
constexpr int64_t kWidth = 1024;

inline int64_t stack_bytes(DType dtype) { return Shape{dtype, {kLayers, kWidth, kWidth}}.bytes(); }

inline CompileResult compiled_result(const std::string& program, const std::string& target,
                                     const std::string& plugin) {
  CompileJob job;
  job.target = parse_target(target);
  job.plugin = plugin;
  job.program = program;
  return compile_in_child(job, KINEMA_PROGRAM);
}

inline EmitOptions options_for(const std::string& target) {
  EmitOptions options;
  options.for_accelerator(true);
  if (parse_target(target).chip.family == Family::TPU) {
    options.host_byte_tiles = kTpuByteTiles;
  }
  return options;
}

/// A stack of layers x + tanh(x w), forward and backward with respect to x, with frozen weights;
/// `accumulated`: inside a loop over parts of a batch.
inline std::string frozen_layers(const std::string& target, Memory memory, DType dtype,
                                 bool accumulated) {
  Graph graph;
  const Tensor x = graph.input({DType::BF16, {2, 512, kWidth}});
  const Tensor stack = graph.input({dtype, {kLayers, kWidth, kWidth}}, "stack", {}, memory);
  const auto layers = [&](Tensor in) {
    return scan({in}, {in.graph().capture(stack)},
                {.length = kLayers, .remat = {.kind = RematPolicy::Kind::FULL}},
                [](std::span<const Tensor> carry, std::span<const Tensor> layer) -> ScanResult {
                  const Tensor w = convert(layer[0], DType::BF16);
                  const Tensor y = dot_general(
                      carry[0], w, {.lhs_contract = {carry[0].rank() - 1}, .rhs_contract = {1}});
                  return {.carry = {carry[0] + tanh(y)}, .ys = {}};
                })
        .carry[0];
  };
  const auto gradient = [&](Tensor in) {
    const Tensor loss = sum(convert(layers(in), DType::F32));
    return gradients(loss, std::vector{in})[0];
  };
  Tensor out;
  if (accumulated) {
    out = scan({}, {x}, {.length = 2},
               [&](std::span<const Tensor>, std::span<const Tensor> part) -> ScanResult {
                 return {.carry = {}, .ys = {gradient(part[0])}};
               })
              .ys[0];
  } else {
    out = gradient(x);
  }
  return emit(graph, std::vector{out}, options_for(target));
}

/// An AdamW update of a stack of weights whose moments are in `memory`.
inline std::string update_program(const std::string& target, Memory memory) {
  using optimizers::Moments;
  Graph graph;
  const nn::ParamSpec spec{.name = "blocks.{}.to_q.weight",
                           .shape = {DType::F32, {kLayers, kWidth, kWidth}},
                           .layers = kLayers};
  const auto optimizer = optimizers::adamw({}, memory);
  const Moments<nn::ParamSpec> kept = optimizer->kept(spec);
  optimizers::OptimizerState state;
  state.params = {spec.input(graph, {})};
  state.mu = {kept.mu[0].input(graph, {})};
  state.nu = {kept.nu[0].input(graph, {})};
  state.count = graph.input({DType::S32, {}});
  const Tensor gradient = graph.input({DType::BF16, spec.shape.dims});
  const Tensor rate = graph.input({DType::F32, {}});
  const optimizers::OptimizerState next = optimizers::update(*optimizer, state, std::vector{spec},
                                                             std::vector{gradient}, rate, rate, {});
  EmitOptions options = options_for(target);
  options.donate = {{0, 0}, {1, 1}, {2, 2}};
  if (memory == Memory::HOST) {
    options.host_outputs = {1, 2};
  }
  return emit(graph, std::vector{next.params[0], next.mu[0], next.nu[0]}, options);
}

/// Device bytes of a program: arguments, temporaries and results that do not alias arguments.
inline int64_t device_bytes(const CompileResult& result) {
  const pjrt::CompiledMemory& m = result.memory;
  return m.arguments + m.temporary + m.outputs - m.aliased;
}

/// The stack is on the host, with at most two layers on the device (three with prefetch), and no
/// copy of the stack on the device.
inline void expect_frozen_layers_wait(const std::string& target, const std::string& plugin) {
  for (const DType dtype : {DType::BF16, DType::S8}) {
    for (const bool accumulated : {false, true}) {
      SCOPED_TRACE(to_string(Shape{dtype, {}}) + (accumulated ? " accumulated" : ""));
      const int64_t stack = stack_bytes(dtype);
      const int64_t before = device_bytes(compiled_result(
          frozen_layers(target, Memory::DEVICE, dtype, accumulated), target, plugin));
      for (const auto& [memory, layers] :
           {std::pair{Memory::HOST, 3}, std::pair{Memory::STREAMED, 6}}) {
        const CompileResult after =
            compiled_result(frozen_layers(target, memory, dtype, accumulated), target, plugin);
        EXPECT_LE(device_bytes(after), before - stack + layers * stack / kLayers);
        EXPECT_GE(after.memory.host_arguments, stack);
        const double reads = (accumulated ? 2.0 : 1.0) * 2.0 * static_cast<double>(stack);
        EXPECT_GE(after.traffic.host_reads, reads) << "once forward, once backward";
        EXPECT_LE(after.traffic.host_reads, reads * (1.0 + 2.0 / kLayers));
        EXPECT_EQ(after.traffic.host_bytes, after.traffic.host_reads);
        EXPECT_GT(after.expected.seconds(), 0);
      }
    }
  }
}

/// Moments are fetched and written back layer by layer, in place.
inline void expect_moments_wait(const std::string& target, const std::string& plugin) {
  const int64_t stack = stack_bytes(DType::F32);
  const int64_t before =
      device_bytes(compiled_result(update_program(target, Memory::DEVICE), target, plugin));
  const CompileResult after = compiled_result(update_program(target, Memory::HOST), target, plugin);
  EXPECT_LE(device_bytes(after), before - 2 * stack + 8 * stack / kLayers);
  EXPECT_EQ(after.memory.host_arguments, 2 * stack);
  EXPECT_EQ(after.memory.host_temporary, 0) << "no second copy on the host";
  EXPECT_NEAR(after.traffic.host_reads, 2.0 * static_cast<double>(stack), 1e3);
  EXPECT_NEAR(after.traffic.host_bytes, 4.0 * static_cast<double>(stack), 1e3);
}

}  // namespace kinema::planning
