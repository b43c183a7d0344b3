#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/qwen3/config.h"
#include "kinema/nn/params.h"

/// The blocks of a Qwen3 language model (arXiv:2505.09388) as a text encoder: the states of a layer
/// before the last are what image models are conditioned on. Source: transformers Qwen3Model.
namespace kinema::qwen3 {

/// How the encoder is computed; independent of the checkpoint.
struct EncoderOptions {
  /// Of matrices; norms are f32.
  DType weights_dtype = DType::F32;
  DType activations_dtype = DType::F32;
  Precision precision = Precision::DEFAULT;
  /// Blocks run as one loop over stacked parameters; if false, one after the other.
  bool scan_layers = true;
  /// Layers at the end that are left out, and with them the final norm. Z-Image: 1, which is
  /// transformers' hidden_states[-2].
  int64_t skipped_layers = 1;
};

struct EncoderInputs {
  Tensor embeddings;  // [b, t, hidden_size]: rows of the embedding table, float
  /// Called with intermediate values under the names of the reference cases' taps ("embed_tokens",
  /// "layer0.self_attn", "layer0" for its output); with scan_layers it is not called inside blocks.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

/// The embedding table [vocab_size, hidden_size]. It is not a parameter of the graph: the caller
/// reads the rows of a prompt from the file.
nn::ParamSpec embedding_table(const EncoderConfig& config);

/// Every other parameter, in the order of `encoder`. Throws what `validate` throws.
std::vector<nn::ParamSpec> parameters(const EncoderConfig& config, const EncoderOptions& options);

/// The states after the layers that are not skipped, [b, t, hidden_size] in activations_dtype;
/// without skipped layers after the final norm. Padding at the end changes no row before it.
///
/// `params` have the shapes and the order of `parameters(config, options)`. Throws an Error with
/// the shapes if the inputs do not fit.
Tensor encoder(std::span<const Tensor> params, const EncoderConfig& config,
               const EncoderOptions& options, const EncoderInputs& inputs);

/// The same blocks one by one, so that only one block's parameters are in memory at a time.
std::vector<nn::ParamSpec> block_parameters(const EncoderConfig& config,
                                            const EncoderOptions& options, int64_t layer);
/// x [b, t, hidden_size] in activations_dtype -> the next block's x. `params` have the shapes of
/// any layer's block_parameters.
Tensor block(std::span<const Tensor> params, const EncoderConfig& config,
             const EncoderOptions& options, Tensor x);

}  // namespace kinema::qwen3
