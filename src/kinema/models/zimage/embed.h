#pragma once

#include "kinema/graph/ops.h"
#include "kinema/models/zimage/config.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"
#include "kinema/nn/params.h"
#include "kinema/nn/rope.h"

namespace kinema::zimage {

/// Latents [b, c, h, w], h and w even, as tokens [b, h/2 w/2, 4 c] in row-major order; a token's
/// channels are ordered (row, column, c).
Tensor pack(Tensor latents);
/// The reverse, for latents of h x w.
Tensor unpack(Tensor tokens, int64_t h, int64_t w);

/// A number of tokens rounded up to a multiple of kFill.
int64_t filled(int64_t tokens);

/// Tokens x [b, s, d] with `pad_token` [1, d] appended up to filled(s).
Tensor fill_up(Tensor x, Tensor pad_token);

/// The number of text tokens of each sample, S32 [b]: text [b, t, c] is zero behind them.
Tensor text_lengths(Tensor text);

/// Lengths S32 [b] rounded up to multiples of kFill, at least one of them.
Tensor filled(Tensor lengths);

/// pred [b, t]: the first `lengths` [b] of t positions.
Tensor is_before(Tensor lengths, int64_t t);

/// The embedding of time for all blocks, under the names of `t_embedder`. In f32.
class TimeEmbedding {
 public:
  TimeEmbedding(const nn::Params& params, const TransformerConfig& config);

  struct Result {
    Tensor sinusoid;  // f32 [b, 256], cosines first
    Tensor time;      // f32 [b, modulation_dim]
  };
  /// t [b], f32: 0 is noise, 1 is clean.
  Result operator()(Tensor t, Precision precision) const;

 private:
  double scale_;
  nn::Linear up_;
  nn::Linear down_;
};

/// Text states to tokens, under the names of `cap_embedder`: an RMS norm and a linear layer.
class CaptionEmbedding {
 public:
  CaptionEmbedding(const nn::Params& params, const TransformerConfig& config);

  /// [b, t, cap_feat_dim] -> [b, t, dim] in `dtype`.
  Tensor operator()(Tensor text, DType dtype, Precision precision) const;

 private:
  nn::RmsNorm norm_;
  nn::Linear linear_;
};

/// Positions of tokens (frame, row, column), S32 [1, s, 3] or [b, s, 3]:
///
///   text, filling included   (1 + i, 0, 0), i = 0 .. t - 1
///   image                    (filled text length + 1, row, column)
///   filling of the image     (0, 0, 0)
Tensor text_positions(Graph& graph, int64_t t);
/// `lengths`: filled text lengths, S32 [b] or [1].
Tensor image_positions(Tensor lengths, int64_t rows, int64_t columns);

/// The rotary tables of positions [b, s, 3], f32 [b, s, 1, head_dim / 2, 2].
nn::Rope rope_of(Tensor positions, const TransformerConfig& config);

}  // namespace kinema::zimage
