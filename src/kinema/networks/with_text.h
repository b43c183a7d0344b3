#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/models/clip/config.h"
#include "kinema/networks/network.h"

/// Networks that run CLIP text encoders in their forward pass, so that these are trained with them.
namespace kinema::networks {

/// A text encoder inside a network.
struct InnerText {
  std::string part;         // its folder in a pipeline: text_encoder or text_encoder_2
  clip::TextConfig config;  // its sizes
  std::string prefix;       // of the keys in its files: text_model, or empty
  int64_t hidden_layer = -1;
  bool hidden_norm = false;  // both as in clip::TextInputs
  int64_t tokens = 77;       // of a prompt
  DType dtype = DType::F32;  // of weights and activations
  Precision precision = Precision::DEFAULT;
  /// Rows that are trained, of words of textual inversion: token ids from config.vocab_size up.
  int64_t learned_rows = 0;
};

/// The name of the parameter with these rows [n, hidden_size].
inline constexpr std::string_view kLearnedRows = "learned_rows";

/// The network with its text encoders, in the pipeline's order: one for Stable Diffusion 1 and 2,
/// two for XL, and CLIP for Flux, whose other one, T5, stays outside. It takes token ids, S32:
///
///   Stable Diffusion  text [b, tokens, encoders]; no pooled text
///   Flux              text are the states of T5; pooled [b, tokens]
///
/// Its parameters are the network's, then those of each encoder with `text_encoder.` or
/// `text_encoder_2.` before their names. ModelOptions::low_ranks has such names too. Throws an
/// Error for other networks, and if widths do not fit.
Network with_text(const Network& network, std::vector<InnerText> texts);

/// Sets the text and pooled text of `inputs`, which are token ids, to what the encoders make of
/// them for `network`. `params` are those of the encoders, in their order.
void encode_text(const Network& network, std::span<const InnerText> texts,
                 std::span<const Tensor> params, const nn::ModelOptions& options, Inputs& inputs);

}  // namespace kinema::networks
