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

/// Flux.1's transformer of Black Forest Labs: a rectified flow over image tokens, which attend
/// together with text tokens. Source: diffusers FluxTransformer2DModel.
namespace kinema::flux {

/// Throws an Error with the sizes that work when heads or widths do not divide over the mesh axes
/// that the rules put them on.
void check_divides(const TransformerConfig& config, const mesh::Placement& place);

struct TransformerInputs {
  Tensor latents;        // [b, c, h, w], float, h and w even
  Tensor timestep;       // [b] or [1], 0..1000
  Tensor guidance = {};  // [b] or [1]: the guidance scale; with guidance_embeds, else empty
  Tensor text = {};      // [b, t, joint_attention_dim]: T5's tokens, padding included
  Tensor pooled = {};    // [b, pooled_projection_dim]: CLIP's
  /// Instead of text: what embedded_text made of it.
  Tensor embedded_text = {};
  /// Instead of running the blocks: what they added to the image tokens for other inputs,
  /// [b, s, d] in activations_dtype. Text is then not read.
  Tensor block_sum = {};
  Tensor dropout_key = {};  // u32[2]; for low-rank additions in training
  /// Called with intermediate values under the names of the reference cases' taps ("x_embedder",
  /// "double0.attn", "single1", ...). With scan_layers only those outside the blocks are offered.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

/// Every parameter of the network, in the order in which `transformer` wants its tensors. Nothing
/// is allocated. Throws what `validate` throws.
std::vector<nn::ParamSpec> parameters(const TransformerConfig& config,
                                      const nn::ModelOptions& options,
                                      const nn::InitOptions& init = {});

/// What a checkpoint key is stored in: F32 for the time and text embedder and the norms of queries
/// and keys; linear weights of blocks in `weights_storage` where given; otherwise `weights_dtype`.
DType parameter_dtype(std::string_view key, DType weights_dtype,
                      std::optional<DType> weights_storage = {});

/// The text tokens as the blocks begin with them, [b, t, d] in activations_dtype: they do not
/// change from step to step.
Tensor embedded_text(std::span<const Tensor> params, const TransformerConfig& config,
                     const nn::ModelOptions& options, Tensor text);

struct TransformerOutputs {
  Tensor velocity;   // noise - data, [b, c, h, w] in activations_dtype
  Tensor block_sum;  // what the blocks added to the image tokens, [b, s, d]
};

/// `params` are tensors of the shapes of `parameters(config, options)`, in that order. Throws an
/// Error naming shapes and what they must be.
TransformerOutputs transformer(std::span<const Tensor> params, const TransformerConfig& config,
                               const nn::ModelOptions& options, const TransformerInputs& inputs);

}  // namespace kinema::flux
