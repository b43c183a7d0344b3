#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "graph/gradient_check.h"
#include "kinema/models/flux/block.h"
#include "kinema/models/unet/transformer.h"
#include "kinema/models/zimage/control.h"
#include "kinema/models/zimage/embed.h"
#include "kinema/nn/conv.h"
#include "kinema/nn/modulation.h"
#include "kinema/nn/resnet.h"
#include "kinema/nn/rope.h"

// Gradients of layers against central differences, for their inputs and every parameter.
namespace kinema {
namespace {

using Layer = std::function<Tensor(std::span<const Tensor> x)>;
/// Opens a layer's parameters.
using Open = std::function<Layer(const nn::Params& params)>;

GradientCase layer_case(const std::string& name, std::vector<HostArray> inputs, const Open& open) {
  nn::SpecCollector collector([](const std::string&) { return DType::F64; });
  open(nn::Params(collector, ""));
  const std::vector<nn::ParamSpec> specs = collector.take();
  const size_t given = inputs.size();
  for (size_t i = 0; i < specs.size(); ++i) {
    inputs.push_back(random_f64(specs[i].shape.dims, 0.2, 0.8, i + 1));
  }
  return {.name = name,
          .function =
              [=](std::span<const Tensor> all) {
                nn::Binder binder;
                for (size_t i = 0; i < specs.size(); ++i) {
                  binder.add(specs[i].name, all[given + i]);
                }
                return open(nn::Params(binder, ""))(all.first(given));
              },
          .inputs = std::move(inputs)};
}

constexpr Precision kExact = Precision::HIGHEST;

TEST(LayerGradients, OfConvolutionsAndTheirNorms) {
  expect_gradients_match({
      layer_case("convolution", {random_f64({2, 3, 4, 5})},
                 [](const nn::Params& params) -> Layer {
                   const nn::Conv2d conv(params, 3, 2, 3);
                   return [=](auto x) { return conv(x[0], kExact); };
                 }),
      layer_case("every second pixel, zeros below and to the right", {random_f64({1, 2, 4, 6})},
                 [](const nn::Params& params) -> Layer {
                   const nn::Conv2d conv(params, 2, 2, 3);
                   return [=](auto x) { return conv(x[0], {0, 1}, 2, kExact); };
                 }),
      layer_case("group norm", {random_f64({2, 4, 3, 2})},
                 [](const nn::Params& params) -> Layer {
                   const nn::GroupNorm norm(params, 4, 2, 1e-3);
                   return [=](auto x) { return norm(x[0]); };
                 }),
      layer_case("convolution of a group norm through SiLU", {random_f64({2, 4, 3, 2})},
                 [](const nn::Params& params) -> Layer {
                   const nn::GroupNorm norm(params / "norm", 4, 2, 1e-3);
                   const nn::Conv2d conv(params / "conv", 4, 3, 3);
                   return [=](auto x) { return conv(norm, x[0], kExact); };
                 }),
      layer_case("twice as large", {random_f64({1, 2, 2, 3})},
                 [](const nn::Params&) -> Layer {
                   return [](auto x) { return nn::resize_nearest(x[0], 4, 6); };
                 }),
      layer_case("to an odd size", {random_f64({1, 2, 2, 3})},
                 [](const nn::Params&) -> Layer {
                   return [](auto x) { return nn::resize_nearest(x[0], 3, 5); };
                 }),
      layer_case("to no part of twice its size", {random_f64({1, 2, 2, 3})},
                 [](const nn::Params&) -> Layer {
                   return [](auto x) { return nn::resize_nearest(x[0], 5, 4); };
                 }),
      layer_case("residual block", {random_f64({1, 2, 3, 3}), random_f64({1, 5}, -1, 1, 7)},
                 [](const nn::Params& params) -> Layer {
                   const nn::ResnetBlock block(params, 2, 4,
                                               {.groups = 2, .eps = 1e-3, .time_dim = 5});
                   return [=](auto x) { return block(x[0], x[1], kExact); };
                 }),
  });
}

TEST(LayerGradients, OfModulationAndRotation) {
  expect_gradients_match({
      layer_case(
          "modulated norm",
          {random_f64({1, 3, 4}), random_f64({1, 1, 4}, -1, 1, 2), random_f64({1, 1, 4}, -1, 1, 3)},
          [](const nn::Params&) -> Layer {
            return [](auto x) { return nn::modulated_norm(x[0], x[1], x[2], 1e-3); };
          }),
      layer_case(
          "gated sum",
          {random_f64({1, 3, 4}), random_f64({1, 3, 4}, -1, 1, 2), random_f64({1, 1, 4}, -1, 1, 3)},
          [](const nn::Params&) -> Layer {
            return [](auto x) { return nn::add_gated(x[0], x[1], x[2]); };
          }),
      layer_case("rotation after tokens that are not rotated", {random_f64({1, 8, 2, 6})},
                 [](const nn::Params&) -> Layer {
                   return [](auto x) {
                     return nn::rotate(
                         x[0], nn::rope_per_axis(x[0].graph(), {1, 2, 3}, {2, 2, 2}, {.lead = 2}));
                   };
                 }),
  });
}

const flux::TransformerConfig kFlux{
    .num_attention_heads = 2, .attention_head_dim = 4, .axes_dims_rope = {0, 2, 2}};

flux::Conditioning conditioning(Tensor temb, int64_t text) {
  flux::Conditioning out;
  out.temb = temb;
  out.rope = nn::rope_per_axis(temb.graph(), {1, 1, 3}, kFlux.axes_dims_rope, {.lead = text});
  out.attention.precision = kExact;
  return out;
}

TEST(LayerGradients, OfFluxsBlocks) {
  expect_gradients_match({
      layer_case("double block",
                 {random_f64({1, 3, 8}), random_f64({1, 2, 8}, -1, 1, 2),
                  random_f64({1, 8}, -0.2, 0.2, 3)},
                 [](const nn::Params& params) -> Layer {
                   const auto block = std::make_shared<flux::DoubleBlock>(params, kFlux);
                   return [=](auto x) {
                     const auto y = (*block)({x[0], x[1]}, conditioning(x[2], 2));
                     return concatenate({y.text, y.image}, Axis(1));
                   };
                 }),
      layer_case("single block", {random_f64({1, 5, 8}), random_f64({1, 8}, -0.2, 0.2, 3)},
                 [](const nn::Params& params) -> Layer {
                   const auto block = std::make_shared<flux::SingleBlock>(params, kFlux);
                   return [=](auto x) { return (*block)(x[0], conditioning(x[1], 2)); };
                 }),
  });
}

/// A ControlNet of Z-Image for images of one token, from its control latents to all of its hints.
GradientCase zimage_control(const std::string& name, const zimage::ControlConfig& control) {
  const zimage::TransformerConfig config{.in_channels = 1,
                                         .dim = 4,
                                         .n_layers = 2,
                                         .n_refiner_layers = 1,
                                         .n_heads = 1,
                                         .axes_dims = {0, 2, 2},
                                         .control = control};
  nn::SpecCollector collector([](const std::string&) { return DType::F64; });
  zimage::open_control(collector, config);
  const std::vector<nn::ParamSpec> specs = collector.take();
  constexpr int64_t kTokens = zimage::TransformerConfig::kFill;
  std::vector<HostArray> inputs{random_f64({1, control.control_in_dim, 2, 2}),
                                random_f64({1, 4}, -1, 1, 2), random_f64({1, kTokens, 4}, -1, 1, 3),
                                random_f64({1, 4}, -0.2, 0.2, 4),
                                random_f64({std::ssize(control.control_layers_places)}, 0.5, 1, 5)};
  const size_t given = inputs.size();
  for (size_t i = 0; i < specs.size(); ++i) {
    // Smaller than in other tests: up to four blocks follow one another, on 32 tokens.
    inputs.push_back(random_f64(specs[i].shape.dims, 0.1, 0.3, i + 6));
  }
  return {.name = name,
          .function =
              [=](std::span<const Tensor> x) {
                Graph& graph = x[0].graph();
                nn::Bound bound(specs, x.subspan(given));
                const nn::ModelOptions options{.activations_dtype = DType::F64,
                                               .precision = kExact};
                const zimage::ControlBranch branch(bound, config, options);
                zimage::Conditioning how{
                    .time = x[3],
                    .rope = zimage::rope_of(
                        zimage::image_positions(constant(graph, 3.0, Shape{DType::S32, {1}}), 1, 1),
                        config)};
                how.attention.precision = kExact;
                const Tensor factor = reshape(slice(x[4], Axis(0), 0, 1), {});
                const zimage::RefinedControl refined =
                    branch.refined(branch.embedded(x[0], x[1]), x[2], factor, how);
                const Tensor hints = branch.hints(refined.tokens, x[2], x[4], how);
                return refined.refiner_hints ? concatenate({hints, refined.refiner_hints}, Axis(0))
                                             : hints;
              },
          .inputs = std::move(inputs)};
}

TEST(LayerGradients, OfZImagesControlNets) {
  expect_gradients_match({zimage_control("version 1", {.control_in_dim = 1,
                                                       .control_layers_places = {0, 1},
                                                       .control_refiner_layers_places = {},
                                                       .n_refiner_layers = 1}),
                          zimage_control("version 2.0", {.control_in_dim = 3,
                                                         .control_layers_places = {0, 1},
                                                         .control_refiner_layers_places = {0},
                                                         .n_refiner_layers = 0}),
                          zimage_control("version 2.1", {.control_in_dim = 3,
                                                         .control_layers_places = {0},
                                                         .control_refiner_layers_places = {0},
                                                         .n_refiner_layers = 1})});
}

TEST(LayerGradients, OfTheUNetsTransformerBlock) {
  unet::UNetConfig config;
  config.cross_attention_dim = 3;
  expect_gradients_match({layer_case(
      "transformer block", {random_f64({1, 4, 6}), random_f64({1, 2, 3}, -1, 1, 2)},
      [config](const nn::Params& params) -> Layer {
        const auto block = std::make_shared<unet::TransformerBlock>(params, 6, 2, config);
        return [=](auto x) {
          unet::TransformerOptions given;
          given.self_attention.precision = kExact;
          given.cross_attention.precision = kExact;
          return (*block)(x[0], block->text_keys(x[1], kExact), given);
        };
      })});
}

}  // namespace
}  // namespace kinema
