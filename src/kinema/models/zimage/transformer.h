#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/zimage/config.h"
#include "kinema/nn/model_options.h"
#include "kinema/nn/params.h"

/// The transformer of Tongyi-MAI's Z-Image: it predicts the data minus the noise of a rectified
/// flow, from image and text tokens as one sequence. Source: diffusers ZImageTransformer2DModel.
///
/// Both kinds of tokens are filled up to multiples of 32 with learned tokens, which take part in
/// attention. Captions of a batch may differ in length: every sample's result is what it would be
/// alone.
namespace kinema::zimage {

/// Throws an Error with the sizes that work if heads or widths do not divide over their mesh axes.
void check_divides(const TransformerConfig& config, const mesh::Placement& place);

/// Text through its own blocks, which are the same in all steps.
struct RefinedText {
  Tensor tokens;   // [b, t, dim] in activations_dtype, t a multiple of 32
  Tensor lengths;  // S32 [b]: of them are the sample's, filling included
};

struct TransformerInputs {
  Tensor latents;  // [b, c, h, w], float, h and w even
  Tensor t;        // [b] or [1], f32, 0 for noise to 1 for data
  /// [b, t, cap_feat_dim]: text states; rows behind a sample's text are zero.
  Tensor text = {};
  /// Instead of text: the result of refined_text.
  RefinedText refined = {};
  /// True: no sample's text ends before the last 32 of the tokens, so that none needs a mask.
  bool text_fills = false;
  /// Instead of running the blocks: the sum that they added to the image tokens in another step,
  /// [b, s, d] in activations_dtype. Text is then not read.
  Tensor block_sum = {};
  /// With a ControlNet: control latents [b, control_in_dim, h, w], and a factor of the hints of
  /// each control layer [control layers] (empty: 1).
  Tensor control = {};
  Tensor control_scale = {};
  Tensor dropout_key = {};  // u32[2]; for adapters in training
  /// Called with intermediate values under the names of the reference cases' taps ("unified",
  /// "noise_refiner0.attention", "layer1", "hint0", ...), zero behind a sample's tokens, and with
  /// "pos_ids". With scan_layers it is called for values outside the blocks only.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

/// Every parameter of the network, in the order of `transformer`. Nothing is allocated. Throws what
/// `validate` throws.
std::vector<nn::ParamSpec> parameters(const TransformerConfig& config,
                                      const nn::ModelOptions& options,
                                      const nn::InitOptions& init = {});

/// The dtype in which a checkpoint key is stored: F32 for the time embedder and norms;
/// `weights_storage`, if set, for linear weights of blocks; otherwise `weights_dtype`.
DType parameter_dtype(std::string_view key, DType weights_dtype,
                      std::optional<DType> weights_storage = {});

/// Text states as in TransformerInputs through the caption embedder and the context refiner.
RefinedText refined_text(std::span<const Tensor> params, const TransformerConfig& config,
                         const nn::ModelOptions& options, Tensor text, bool text_fills = false);

struct TransformerOutputs {
  Tensor output;     // data - noise, [b, c, h, w] in activations_dtype
  Tensor block_sum;  // the sum that the blocks added to the image tokens, [b, s, d]
};

/// `params` have the shapes and the order of `parameters(config, options)`. Throws an Error with
/// the shapes if they do not fit.
TransformerOutputs transformer(std::span<const Tensor> params, const TransformerConfig& config,
                               const nn::ModelOptions& options, const TransformerInputs& inputs);

}  // namespace kinema::zimage
