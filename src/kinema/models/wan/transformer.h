#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/wan/attention.h"
#include "kinema/models/wan/config.h"
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"

namespace kinema::wan {

/// Throws an Error with the sizes that work if heads or widths do not divide over their mesh axes.
void check_divides(const TransformerConfig& config, const mesh::Placement& place);

struct TransformerInputs {
  Tensor hidden_states;  // [b, c_in, f, h, w], float
  // [b], [1] for all samples, or [b, s] (TI2V: one per token); float or integer, 0..1000
  Tensor timestep;
  Tensor encoder_hidden_states = {};        // [b, t, text_dim]
  Tensor encoder_hidden_states_image = {};  // [b, n, image_dim], Wan 2.1 I2V only
  /// With vace_layers: control latents [b, vace_in_channels, f', h, w], float, of as many frames as
  /// hidden_states or fewer; and the factor of each hint, [number of vace_layers], empty: 1.
  Tensor control = {};
  Tensor control_scale = {};
  /// With ref_conv_channels: latents of a reference image [b, ref_conv_channels, 1, h, w], float,
  /// which is a frame in front of the video.
  Tensor reference = {};
  /// With control_adapter_channels: a camera's path [b, control_adapter_channels, f, H, W], float,
  /// with H, W control_adapter_shrink times h, w.
  Tensor camera = {};
  /// Wan-Animate: latents of poses [b, latent_channels, f - 1, h, w], float, of all frames but the
  /// first; and the tokens of faces (face_tokens), or their pictures [b, 3, 4 (f - 2) + 1, S,
  /// S] in [-1, 1].
  Tensor poses = {};
  Tensor faces = {};
  /// Instead of text and image: the result of cross_keys.
  std::optional<CrossKeys> keys = {};
  /// Instead of running the blocks: the sum that they added to the tokens in another step, [b, s,
  /// d] in activations_dtype. Text, image and keys are then not read.
  Tensor block_sum = {};
  /// Classifier-free guidance batch: the second half of the samples equals the first except for
  /// text, image and keys. The first block's self-attention, which does not read these, is computed
  /// for one half. For programs on one device that are not differentiated.
  bool cfg_batch = false;
  Tensor dropout_key = {};  // u32[2]; needed when dropout > 0, else empty
  /// Called with intermediate values under the names of the reference cases' taps ("patch_embed",
  /// "temb", "block0.attn1", ...). With scan_layers it is called for values outside the blocks
  /// only.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

/// Every parameter of the network, in the order of `transformer`. Nothing is allocated. Throws what
/// `validate` throws.
std::vector<nn::ParamSpec> parameters(const TransformerConfig& config,
                                      const nn::ModelOptions& options,
                                      const nn::InitOptions& init = {});

/// The dtype in which a checkpoint key is stored: F32 for norms, condition embedder and modulation
/// tables (keys containing `norm`, `condition_embedder`, `scale_shift_table`,
/// `motion_synthesis_weight`, `lora_scale` or
/// `weight_scale`); `weights_storage`, if set, for linear weights of blocks; otherwise
/// `weights_dtype`.
DType parameter_dtype(std::string_view key, DType weights_dtype,
                      std::optional<DType> weights_storage = {});

/// Keys and values of all blocks, then of those of the control branch, each with a leading axis of
/// layers. Text and image as in
/// TransformerInputs.
CrossKeys cross_keys(std::span<const Tensor> params, const TransformerConfig& config,
                     const nn::ModelOptions& options, Tensor text, Tensor image = {});

/// Wan-Animate: the tokens of pictures of faces [b, 3, 4 (f - 2) + 1, S, S], float in [-1, 1], for
/// a video of f latent frames: [b, f, face_heads + 1, d] in activations_dtype. They are the same in
/// all steps.
Tensor face_tokens(std::span<const Tensor> params, const TransformerConfig& config,
                   const nn::ModelOptions& options, Tensor pictures);

/// Timesteps per token, [b, s], for a video [b, c, f, h, w]: `first` [b] for tokens of the first
/// frame (patch), `others` [b] for the rest. A conditioning frame without noise has timestep 0
/// (TI2V).
Tensor token_timesteps(Tensor first, Tensor others, Tensor video, const TransformerConfig& config);

struct TransformerOutputs {
  Tensor velocity;   // [b, c_out, f, h, w] in activations_dtype
  Tensor block_sum;  // the sum that the blocks added to the tokens, [b, s, d] in activations_dtype
};

/// As `transformer`, with the sum that the blocks added.
TransformerOutputs transformer_outputs(std::span<const Tensor> params,
                                       const TransformerConfig& config,
                                       const nn::ModelOptions& options,
                                       const TransformerInputs& inputs);

/// The predicted velocity (noise - data), [b, c_out, f, h, w] in activations_dtype.
///
/// `params` have the shapes and the order of `parameters(config, options)`. Source: diffusers
/// WanTransformer3DModel; arXiv:2503.20314.
Tensor transformer(std::span<const Tensor> params, const TransformerConfig& config,
                   const nn::ModelOptions& options, const TransformerInputs& inputs);

}  // namespace kinema::wan
