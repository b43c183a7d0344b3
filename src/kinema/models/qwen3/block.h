#pragma once

#include <functional>

#include "kinema/models/qwen3/config.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/params.h"

namespace kinema::qwen3 {

/// Called with an intermediate value and its name within the block.
using BlockTap = std::function<void(const char* name, Tensor value)>;

/// Inputs of a block in addition to the tokens.
struct BlockInputs {
  Tensor cos;   // f32 [t, 1, head_dim / 2] of positions from 0
  Tensor sin;   // the same
  Tensor mask;  // f32 [1, 1, t, t], added to the scores: no token attends to later ones
  Precision precision = Precision::DEFAULT;
};

/// What all blocks share, for `t` tokens.
BlockInputs block_inputs(Graph& graph, int64_t t, const EncoderConfig& config, Precision precision);

/// Causal attention with grouped queries, an RMS norm over the channels of each head of queries and
/// keys, and the rotation of the two halves of a head.
class SelfAttention {
 public:
  SelfAttention(const nn::Params& params, const EncoderConfig& config);

  /// [b, t, d] -> [b, t, d].
  Tensor operator()(Tensor x, const BlockInputs& given, const BlockTap& tap = {}) const;

 private:
  EncoderConfig config_;
  nn::Linear query_;
  nn::Linear key_;
  nn::Linear value_;
  nn::Linear out_;
  nn::RmsNorm norm_query_;
  nn::RmsNorm norm_key_;
};

/// One block on x [b, t, d]:
///
///   x += SelfAttention(rms_norm(x))
///   x += down(silu(gate(y)) * up(y)),  y = rms_norm(x)
class Block {
 public:
  Block(const nn::Params& params, const EncoderConfig& config);

  Tensor operator()(Tensor x, const BlockInputs& given, const BlockTap& tap = {}) const;

 private:
  nn::RmsNorm attention_norm_;
  SelfAttention attention_;
  nn::RmsNorm feed_forward_norm_;
  nn::Linear gate_;
  nn::Linear up_;
  nn::Linear down_;
};

}  // namespace kinema::qwen3
