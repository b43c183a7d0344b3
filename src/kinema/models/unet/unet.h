#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/unet/config.h"
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"

/// The UNets of Stable Diffusion 1 and 2 (arXiv:2112.10752) and XL (arXiv:2307.01952). Source:
/// diffusers UNet2DConditionModel.
namespace kinema::unet {

/// What ControlNets add inside a UNet: to each skip connection in the order of the down path, and
/// to the middle's result; [b, c, h, w] as these, or [b, c, 1, 1] for all pixels. No `mid`:
/// nothing.
struct Residuals {
  std::vector<Tensor> skips;
  Tensor mid;
};

struct UNetInputs {
  Tensor latents;    // [b, in_channels, h, w], float
  Tensor timestep;   // [b] or [1]; float or integer, 0..1000
  Tensor text = {};  // [b, t, cross_attention_dim]
  // Of Stable Diffusion XL:
  Tensor pooled = {};    // [b, pooled_dim]: the second encoder's `text_embeds`
  Tensor time_ids = {};  // [b, 6]: original height, width, crop top, left, target height, width
  /// Instead of text: the result of text_keys.
  std::vector<Tensor> keys = {};
  /// Instead of running the blocks: the sum that they added to conv_in's output in another step,
  /// [b, h w, c] in activations_dtype. Text is then not read.
  Tensor block_sum = {};
  Residuals residuals = {};
  Tensor dropout_key = {};  // u32[2]; for adapters in training
  /// Called with intermediate values under the names of the reference cases' taps ("conv_in",
  /// "down1.resnet0", "mid", ...). With scan_layers it is not called inside transformers.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

/// Every parameter, in the order of `unet`. Nothing is allocated. Throws what `validate` throws.
std::vector<nn::ParamSpec> parameters(const UNetConfig& config, const nn::ModelOptions& options,
                                      const nn::InitOptions& init = {});

/// The dtype in which a checkpoint key is stored: F32 for norms and the embedders of timestep and
/// sizes; `weights_storage`, if set, for linear weights of transformer blocks; otherwise
/// `weights_dtype`.
DType parameter_dtype(std::string_view key, DType weights_dtype,
                      std::optional<DType> weights_storage = {});

/// Keys and values of each transformer, in their order in the forward pass: key, value, key, ...,
/// each [layers, b, t, heads, head width].
std::vector<Tensor> text_keys(std::span<const Tensor> params, const UNetConfig& config,
                              const nn::ModelOptions& options, Tensor text);
/// Layers, heads and head width of each tensor of text_keys.
std::vector<std::array<int64_t, 3>> text_key_sizes(const UNetConfig& config);

struct UNetOutputs {
  Tensor prediction;  // [b, out_channels, h, w] in activations_dtype
  Tensor block_sum;   // the sum that the blocks added to conv_in's output, [b, h w, c]
};

/// FLOPs of the convolutions and matrix products of one sample of h x w latents.
double forward_flops(const UNetConfig& config, int64_t h, int64_t w, int64_t text_tokens);

/// `params` have the shapes and the order of `parameters(config, options)`. Throws an Error with
/// the shapes if they do not fit.
UNetOutputs unet(std::span<const Tensor> params, const UNetConfig& config,
                 const nn::ModelOptions& options, const UNetInputs& inputs);

}  // namespace kinema::unet
