#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/t5/config.h"
#include "kinema/nn/params.h"

/// The encoders of T5 v1.1 (arXiv:1910.10683, arXiv:2002.05202) and UMT5 (arXiv:2304.09151), which
/// differ only in their position bias. Source: transformers T5EncoderModel, UMT5EncoderModel.
namespace kinema::t5 {

/// How the encoder is computed; independent of the checkpoint.
struct EncoderOptions {
  /// Of matrices; norms and bias tables are f32.
  DType weights_dtype = DType::F32;
  DType activations_dtype = DType::F32;
  Precision precision = Precision::DEFAULT;
  /// Blocks run as one loop over stacked parameters; if false, one after the other.
  bool scan_layers = true;
  /// Attention computes heads in groups whose scores (f32 [b, heads, t, t]) stay below this, so
  /// that they are not larger than a block's other values.
  int64_t scores_bytes = int64_t{8} << 20;
};

struct EncoderInputs {
  Tensor embeddings;  // [b, t, d_model]: rows of the embedding table, float
  /// [b, t]: nonzero for tokens, 0 for padding; any numeric dtype. Empty: padding is attended to,
  /// as in Flux.1.
  Tensor mask = {};
  /// Called with intermediate values under the names of the reference cases' taps ("layer0_input",
  /// "block0_bias", "block0" for its output, "position_bias" if the blocks share one); with
  /// scan_layers it is not called.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

/// The embedding table [vocab_size, d_model]. It is not a parameter of the graph: it has gigabytes,
/// of which a prompt needs a few rows. The caller reads these from the file.
nn::ParamSpec embedding_table(const EncoderConfig& config);

/// Every other parameter, in the order of `encoder`. Throws what `validate` throws.
std::vector<nn::ParamSpec> parameters(const EncoderConfig& config, const EncoderOptions& options);

/// The last hidden state, [b, t, d_model] in activations_dtype. Padding positions are computed too,
/// but no token attends to them.
///
/// `params` have the shapes and the order of `parameters(config, options)`. Throws an Error with
/// the shapes if the inputs do not fit.
Tensor encoder(std::span<const Tensor> params, const EncoderConfig& config,
               const EncoderOptions& options, const EncoderInputs& inputs);

/// The same encoder as parts that run one after the other, so that only one part's parameters are
/// in memory at a time: the blocks, 0 to num_layers - 1, then the final norm. These ignore
/// options.scan_layers and have no taps.
std::vector<nn::ParamSpec> block_parameters(const EncoderConfig& config,
                                            const EncoderOptions& options, int64_t layer);
std::vector<nn::ParamSpec> norm_parameters(const EncoderConfig& config,
                                           const EncoderOptions& options);
/// Parameters that every block gets in addition to its own: the table of the position bias, or none
/// if each block has its own.
std::vector<nn::ParamSpec> shared_parameters(const EncoderConfig& config,
                                             const EncoderOptions& options);

/// x [b, t, d_model] in activations_dtype, mask as in EncoderInputs -> the next block's x. `params`
/// have the shapes of any layer's block_parameters (all blocks have the same), followed by those of
/// shared_parameters.
Tensor block(std::span<const Tensor> params, const EncoderConfig& config,
             const EncoderOptions& options, Tensor x, Tensor mask);
/// The last block's output x -> the last hidden state, [b, t, d_model] in x's dtype.
Tensor final_norm(std::span<const Tensor> params, const EncoderConfig& config,
                  const EncoderOptions& options, Tensor x);

}  // namespace kinema::t5
