#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/t5/config.h"
#include "kinema/nn/params.h"

/// The encoders of T5 v1.1 (arXiv:1910.10683, arXiv:2002.05202) and UMT5 (arXiv:2304.09151), which
/// differ in their position bias alone.
/// Source: transformers T5EncoderModel, UMT5EncoderModel.
namespace kinema::t5 {

/// How the encoder is computed; independent of the checkpoint.
struct EncoderOptions {
  /// Of matrices; norms and bias tables are kept in f32.
  DType weights_dtype = DType::F32;
  DType activations_dtype = DType::F32;
  Precision precision = Precision::DEFAULT;
  /// Blocks as one loop over stacked parameters; else one after the other.
  bool scan_layers = true;
  /// Attention goes through the heads in groups whose scores (f32 [b, heads, t, t]) stay below
  /// this, so that they do not outgrow the rest of the memory a block needs.
  int64_t scores_bytes = int64_t{8} << 20;
};

struct EncoderInputs {
  Tensor embeddings;  // [b, t, d_model]: rows of the embedding table, float
  /// [b, t]: not 0 where there is a token, any numeric dtype. Empty: every position takes part,
  /// padding too, as Flux.1 wants it.
  Tensor mask = {};
  /// Called with intermediate values under the names of the reference cases' taps
  /// ("layer0_input", "block0_bias", "block0" for what leaves it, "position_bias" where the blocks
  /// share one); with scan_layers it is not called.
  std::function<void(const std::string& name, Tensor value)> tap = {};
};

/// The embedding table [vocab_size, d_model]. It is no parameter of the graph: of its gigabytes a
/// prompt needs a few rows, which the caller takes from the file.
nn::ParamSpec embedding_table(const EncoderConfig& config);

/// Every other parameter, in the order in which `encoder` wants its tensors. Throws what
/// `validate` throws.
std::vector<nn::ParamSpec> parameters(const EncoderConfig& config, const EncoderOptions& options);

/// The last hidden state, [b, t, d_model] in activations_dtype. Positions without a token are
/// computed like the others but looked at by none.
///
/// `params` are tensors of the shapes of `parameters(config, options)`, in that order. Throws an
/// Error naming the shapes when the inputs do not fit.
Tensor encoder(std::span<const Tensor> params, const EncoderConfig& config,
               const EncoderOptions& options, const EncoderInputs& inputs);

/// The same encoder in pieces that run one after the other, so that the parameters of one are
/// enough at a time: the blocks, 0 to num_layers - 1, then the final norm. options.scan_layers and
/// taps are for the whole alone.
std::vector<nn::ParamSpec> block_parameters(const EncoderConfig& config,
                                            const EncoderOptions& options, int64_t layer);
std::vector<nn::ParamSpec> norm_parameters(const EncoderConfig& config,
                                           const EncoderOptions& options);
/// What every block is given beside its own: the table of the position bias, or nothing where each
/// block has its own.
std::vector<nn::ParamSpec> shared_parameters(const EncoderConfig& config,
                                             const EncoderOptions& options);

/// x [b, t, d_model] in activations_dtype, mask as in EncoderInputs -> the next block's x.
/// `params` are of the shapes of any layer's block_parameters, since blocks are alike, and behind
/// them of shared_parameters.
Tensor block(std::span<const Tensor> params, const EncoderConfig& config,
             const EncoderOptions& options, Tensor x, Tensor mask);
/// x as it leaves the last block -> the last hidden state, [b, t, d_model] in x's dtype.
Tensor final_norm(std::span<const Tensor> params, const EncoderConfig& config,
                  const EncoderOptions& options, Tensor x);

}  // namespace kinema::t5
