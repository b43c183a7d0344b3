// Arguments in host memory: how they are written, and that values do not change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kinema/graph/autodiff.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/scan.h"

namespace kinema {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kFetch = "_xla_buffer_placement = \"device\"";
constexpr const char* kStow = "_xla_buffer_placement = \"pinned_host\"";
constexpr const char* kWaits = "mhlo.memory_kind = \"pinned_host\"";

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

/// For a text with one loop: the part before it and its body.
std::string before_loop(const std::string& text) {
  return text.substr(0, text.find("stablehlo.while"));
}
std::string in_loop(const std::string& text) { return text.substr(text.find("stablehlo.while")); }

/// x after four layers of a stack whose weights are in `memory`.
struct Layers {
  Graph graph;
  Tensor x = graph.input({DType::F32, {2, 3}}, "x");
  Tensor stack;
  Tensor y;

  explicit Layers(Memory memory, DType dtype = DType::F32) {
    stack = graph.input({dtype, {4, 3, 3}}, "stack", {}, memory);
    const Tensor weights = convert(stack, DType::F32);
    y = scan({x}, {weights}, {.length = 4, .remat = {.kind = RematPolicy::Kind::FULL}},
             [](std::span<const Tensor> carry, std::span<const Tensor> layer) -> ScanResult {
               return {.carry = {tanh(dot_general(carry[0], layer[0],
                                                  {.lhs_contract = {1}, .rhs_contract = {0}}))}};
             })
            .carry[0];
  }
  std::string text(bool accelerator, const std::vector<Tensor>& outputs) const {
    EmitOptions options;
    options.for_accelerator(accelerator);
    return emit(graph, outputs, options);
  }
  std::string text(bool accelerator = true) const { return text(accelerator, {y}); }
};

TEST(HostMemory, IsNotWrittenWhereTheDeviceHasNoOther) {
  for (const Memory memory : {Memory::HOST, Memory::STREAMED}) {
    EXPECT_EQ(Layers(memory).text(false), Layers(Memory::DEVICE).text(false));
  }
}

TEST(HostMemory, IsReadSliceBySlice) {
  const std::string text = Layers(Memory::HOST).text();
  EXPECT_EQ(count(text, kWaits), 1U);
  EXPECT_EQ(count(before_loop(text), kFetch), 0U);
  EXPECT_EQ(count(in_loop(text), kFetch), 1U);
  EXPECT_THAT(Layers(Memory::DEVICE).text(), Not(HasSubstr("pinned_host")));
}

TEST(HostMemory, IsReadAheadOfTheStepThatComputes) {
  const std::string text = Layers(Memory::STREAMED).text();
  EXPECT_EQ(count(before_loop(text), kFetch), 1U) << "of the first step";
  EXPECT_EQ(count(in_loop(text), kFetch), 1U) << "of the next one";
  EXPECT_THAT(before_loop(text), HasSubstr("dense<0> : tensor<i32>"));
}

TEST(HostMemory, IsConvertedAfterTheFetch) {
  const std::string text = Layers(Memory::HOST, DType::BF16).text();
  const std::string loop = in_loop(text);
  EXPECT_LT(loop.find(kFetch), loop.find("stablehlo.convert"));
  EXPECT_THAT(loop, HasSubstr("(tensor<3x3xbf16>) -> tensor<3x3xf32>"));
}

TEST(HostMemory, OfBytesHasTheRequestedTiles) {
  EmitOptions options;
  options.for_accelerator(true);
  options.host_byte_tiles = kTpuByteTiles;
  const auto text = [&](DType dtype) {
    const Layers layers(Memory::HOST, dtype);
    return emit(layers.graph, std::vector{layers.y}, options);
  };
  const char* const tiles = "mhlo.layout_mode = \"{2,1,0:T(8,128)(4,1)}\"";
  EXPECT_EQ(count(text(DType::S8), tiles), 1U);
  EXPECT_EQ(count(text(DType::BF16), tiles), 0U) << "has those of the device";
  EXPECT_THAT(Layers(Memory::HOST, DType::S8).text(), Not(HasSubstr("layout_mode")));
}

TEST(HostMemory, IsReadAgainByTheBackwardPass) {
  for (const auto& [memory, outside] :
       {std::pair{Memory::HOST, size_t{0}}, std::pair{Memory::STREAMED, size_t{2}}}) {
    Layers layers(memory);
    const Tensor loss = sum(layers.y);
    const std::vector<Tensor> outputs = gradients(loss, std::vector{layers.x});
    const std::string text = layers.text(true, outputs);
    ASSERT_EQ(count(text, "stablehlo.while"), 2U);
    EXPECT_EQ(count(text, kFetch), 2 + outside);
    EXPECT_EQ(count(text, kStow), 0U);
  }
}

TEST(HostMemory, IsKnownInsideALoopAroundTheLoop) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {2, 3}});
  const Tensor stack = graph.input({DType::F32, {4, 3, 3}}, "stack", {}, Memory::HOST);
  const Tensor parts = graph.input({DType::F32, {5, 2, 3}});
  const auto layers = [&](std::span<const Tensor> carry, std::span<const Tensor> layer) {
    return ScanResult{
        .carry = {dot_general(carry[0], layer[0], {.lhs_contract = {1}, .rhs_contract = {0}})},
        .ys = {}};
  };
  const Tensor y =
      scan({x}, {parts}, {.length = 5},
           [&](std::span<const Tensor> carry, std::span<const Tensor> part) {
             const Tensor in = carry[0] + part[0];
             return ScanResult{
                 .carry = {scan({in}, {in.graph().capture(stack)}, {.length = 4}, layers).carry[0]},
                 .ys = {}};
           })
          .carry[0];
  EmitOptions options;
  options.for_accelerator(true);
  EXPECT_EQ(count(emit(graph, std::vector{y}, options), kFetch), 1U);
}

TEST(HostMemory, TakesWhatALoopWritesInPlace) {
  Graph graph;
  const Tensor moments = graph.input({DType::F32, {4, 3}}, "mu", {}, Memory::HOST);
  const Tensor gradient = graph.input({DType::F32, {4, 3}}, "g");
  const Tensor after = scan({}, {moments, gradient}, {.length = 4, .in_place = {{0, 0}}},
                            [](std::span<const Tensor>, std::span<const Tensor> in) {
                              return ScanResult{.carry = {}, .ys = {in[0] * 0.9 + in[1]}};
                            })
                           .ys[0];
  EmitOptions options{
      .donate = {{0, 0}}, .output_shardings = {}, .host_outputs = {0}, .lowering = {}};
  options.for_accelerator(true);
  const std::string text = emit(graph, std::vector{after}, options);
  EXPECT_EQ(count(text, kWaits), 2U) << "argument and result";
  EXPECT_EQ(count(text, kFetch), 1U);
  EXPECT_EQ(count(text, kStow), 1U);
  EXPECT_THAT(text, HasSubstr("tf.aliasing_output = 0 : i32, mhlo.memory_kind"));
  EXPECT_THAT(before_loop(text), Not(HasSubstr("dense<0.0> : tensor<4x3xf32>")))
      << "there is no second stack";
  options.for_accelerator(false);
  EXPECT_THAT(emit(graph, std::vector{after}, options), Not(HasSubstr("pinned_host")));
}

}  // namespace
}  // namespace kinema
