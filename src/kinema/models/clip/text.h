#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/clip/config.h"
#include "kinema/nn/params.h"

/// The text side of CLIP (arXiv:2103.00020), as Flux.1 and Stable Diffusion XL read their prompts:
/// a transformer whose tokens see those before them, padding included.
/// Source: transformers CLIPTextModel, CLIPTextModelWithProjection.
namespace kinema::clip {

/// How the text model is computed; independent of the checkpoint.
struct TextOptions {
  /// Weights and activations; norms stay f32.
  DType dtype = DType::F32;
  Precision precision = Precision::DEFAULT;
  /// Layers as one loop over stacked parameters; else one after the other.
  bool scan_layers = true;
};

struct TextInputs {
  Tensor embeddings;  // [b, t, hidden_size]: rows of the embedding table, float
  Tensor ids;         // [b, t]: what they are rows of, integers; only to find the pooled row
  /// Of which layer `TextOutputs::hidden` is, counted from the end: -1 the last, -2 the last but
  /// one, -1 - num_hidden_layers what the layers begin with.
  int64_t hidden_layer = -2;
  /// Called with intermediate values under the names of the reference cases' taps ("embeddings",
  /// "layer0", "final_layer_norm"); with scan_layers it is not called for layers.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

struct TextOutputs {
  Tensor hidden;  // [b, t, hidden_size]: states of the layer asked for, without the final norm
  Tensor last;    // [b, t, hidden_size]: of the last layer, with it
  /// [b, hidden_size]: the row of `last` at the prompt's end. With eos_token_id 2, which published
  /// configurations say though their end token is another, that is the first row of the largest id;
  /// else the first whose id is eos_token_id, or the first of all where there is none.
  Tensor pooled;
  Tensor text_embeds;  // [b, projection_dim]: the projection of `pooled`; empty without one
};

/// The embedding table [vocab_size, hidden_size]. It is no parameter of the graph: of its hundreds
/// of megabytes a prompt needs a few rows, which the caller takes from the file.
nn::ParamSpec token_embedding(const TextConfig& config, const std::string& prefix);

/// Every other parameter, in the order in which `text_states` wants its tensors. `prefix` is
/// `text_model` in published checkpoints and empty in what newer transformers save; the projection
/// is without it. Throws what `validate` throws.
std::vector<nn::ParamSpec> text_parameters(const TextConfig& config, const std::string& prefix,
                                           const TextOptions& options);

/// All in options.dtype. `params` are tensors of the shapes of `text_parameters`, in that order.
/// Throws an Error naming the shapes when the inputs do not fit, more than max_position_embeddings
/// positions, or a hidden_layer that there is not.
TextOutputs text_states(std::span<const Tensor> params, const TextConfig& config,
                        const std::string& prefix, const TextOptions& options,
                        const TextInputs& inputs);

}  // namespace kinema::clip
