#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/clip/config.h"
#include "kinema/nn/params.h"

/// CLIP's text model (arXiv:2103.00020), the text encoder of Flux.1 and Stable Diffusion: a causal
/// transformer in which padding tokens are attended to.
/// Source: transformers CLIPTextModel, CLIPTextModelWithProjection.
namespace kinema::clip {

/// How the text model is computed; independent of the checkpoint.
struct TextOptions {
  /// Weights and activations; norms are f32.
  DType dtype = DType::F32;
  Precision precision = Precision::DEFAULT;
  /// Layers run as one loop over stacked parameters; if false, one after the other.
  bool scan_layers = true;
  /// Ranks of the adapters of linear layers, which are not merged into their weights.
  nn::LowRanks low_ranks = {};
  /// Dropout of their inputs during training.
  nn::Dropout low_rank_dropout = {};
};

struct TextInputs {
  Tensor embeddings;  // [b, t, hidden_size]: rows of the embedding table, float
  Tensor ids;  // [b, t]: the token ids of these rows, integers; only used to find the pooled row
  /// The layer of `TextOutputs::hidden`, counted from the end: -1 is the last layer, -2 the last
  /// but one, -1 - num_hidden_layers the input of the first.
  int64_t hidden_layer = -2;
  /// `TextOutputs::hidden` gets the final norm, as in Stable Diffusion 1 and 2.
  bool hidden_norm = false;
  /// f32 [b, t]: 0 for tokens that no token attends to, 1 for the others; empty: all count.
  Tensor keys = {};
  /// Called with intermediate values under the names of the reference cases' taps ("embeddings",
  /// "layer0", "final_layer_norm"); with scan_layers it is not called for layers.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

struct TextOutputs {
  Tensor hidden;  // [b, t, hidden_size]: states of the requested layer
  Tensor last;    // [b, t, hidden_size]: states of the last layer, with the final norm
  /// [b, hidden_size]: the row of `last` at the prompt's end. With eos_token_id 2 (in published
  /// configurations, although their end token is another one) it is the first row with the largest
  /// id; otherwise the first whose id is eos_token_id, or row 0 if there is none.
  Tensor pooled;
  Tensor text_embeds;  // [b, projection_dim]: the projection of `pooled`; empty without one
};

/// The embedding table [vocab_size, hidden_size]. It is not a parameter of the graph: it has
/// hundreds of megabytes, of which a prompt needs a few rows. The caller reads these from the file.
nn::ParamSpec token_embedding(const TextConfig& config, const std::string& prefix);

/// Every other parameter, in the order of `text_states`. `prefix` is `text_model` in published
/// checkpoints and empty in files of newer transformers versions; the projection has no prefix.
/// Throws what `validate` throws.
std::vector<nn::ParamSpec> text_parameters(const TextConfig& config, const std::string& prefix,
                                           const TextOptions& options);

/// All results are in options.dtype. `params` have the shapes and the order of `text_parameters`.
/// Throws an Error with the shapes if the inputs do not fit, and for more than
/// max_position_embeddings positions or a hidden_layer that does not exist.
TextOutputs text_states(std::span<const Tensor> params, const TextConfig& config,
                        const std::string& prefix, const TextOptions& options,
                        const TextInputs& inputs);

}  // namespace kinema::clip
