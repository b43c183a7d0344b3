#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/flux/config.h"
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"

/// The transformer of Black Forest Labs' Flux.1: it predicts the rectified-flow velocity of image
/// tokens, which attend jointly with text tokens. Source: diffusers FluxTransformer2DModel.
namespace kinema::flux {

/// Throws an Error with the sizes that work if heads or widths do not divide over their mesh axes.
void check_divides(const TransformerConfig& config, const mesh::Placement& place);

struct TransformerInputs {
  Tensor latents;  // [b, c, h, w], float, h and w even
  /// Latents without noise, [b, c, h', w'], of a picture that the result is made from (Kontext):
  /// its tokens follow those of `latents`, at frame position 1.
  Tensor reference = {};
  Tensor timestep;       // [b] or [1], 0..1000
  Tensor guidance = {};  // [b] or [1]: the guidance scale; empty without guidance_embeds
  Tensor text = {};      // [b, t, joint_attention_dim]: T5's text states, padding included
  Tensor pooled = {};    // [b, pooled_projection_dim]: CLIP's pooled text
  /// Instead of text: the result of embedded_text.
  Tensor embedded_text = {};
  /// Instead of running the blocks: the sum that they added to the image tokens in another step,
  /// [b, s, d] in activations_dtype. Text is then not read.
  Tensor block_sum = {};
  Tensor dropout_key = {};  // u32[2]; for adapters in training
  /// Called with intermediate values under the names of the reference cases' taps ("x_embedder",
  /// "double0.attn", "single1", ...). With scan_layers it is called for values outside the blocks
  /// only.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

/// Every parameter of the network, in the order of `transformer`. Nothing is allocated. Throws what
/// `validate` throws.
std::vector<nn::ParamSpec> parameters(const TransformerConfig& config,
                                      const nn::ModelOptions& options,
                                      const nn::InitOptions& init = {});

/// The dtype in which a checkpoint key is stored: F32 for the time and text embedder and the norms
/// of queries and keys; `weights_storage`, if set, for linear weights of blocks; otherwise
/// `weights_dtype`.
DType parameter_dtype(std::string_view key, DType weights_dtype,
                      std::optional<DType> weights_storage = {});

/// The text tokens at the input of the blocks, [b, t, d] in activations_dtype: they are the same in
/// all steps.
Tensor embedded_text(std::span<const Tensor> params, const TransformerConfig& config,
                     const nn::ModelOptions& options, Tensor text);

struct TransformerOutputs {
  Tensor velocity;   // noise - data, [b, c, h, w] in activations_dtype
  Tensor block_sum;  // the sum that the blocks added to the image tokens, [b, s, d]
};

/// `params` have the shapes and the order of `parameters(config, options)`. Throws an Error with
/// the shapes if they do not fit.
TransformerOutputs transformer(std::span<const Tensor> params, const TransformerConfig& config,
                               const nn::ModelOptions& options, const TransformerInputs& inputs);

}  // namespace kinema::flux
