#pragma once

#include <optional>

#include "kinema/models/vae/layers.h"

namespace kinema::vae {

/// Halves rows and columns by a convolution that is padded below and to the right only; with `time`
/// also the frames, except in the first chunk.
class Downsample {
 public:
  Downsample(const nn::Params& params, int64_t dim, bool time);

  /// x [b, c, f, h, w] with even h and w, and even f if it is halved -> [b, c, f(/2), h/2, w/2].
  Tensor operator()(Tensor x, History& history, const Compute& compute) const;

 private:
  Conv conv_;
  std::optional<Conv> time_;
};

/// Doubles rows and columns by nearest-neighbour resize and a convolution; with `time` it first
/// doubles the frames, except in the first chunk.
class Upsample {
 public:
  Upsample(const nn::Params& params, int64_t in, int64_t out, bool time);

  /// x [b, in, f, h, w] -> [b, in, (2)f, h, w].
  Tensor in_time(Tensor x, History& history, const Compute& compute) const;
  /// x [b, in, f, h, w] -> [b, out, f, 2h, 2w]; frames are independent.
  Tensor in_space(Tensor x, const History& history, const Compute& compute) const;

 private:
  Conv conv_;
  std::optional<Conv> time_;
};

/// A block of `time` frames and `space` rows and columns.
struct Block {
  int64_t time = 1;
  int64_t space = 1;
  int64_t size() const { return time * space * space; }
};

/// Wan 2.2's shortcut around an encoder level: blocks become channels (channel, frame, row,
/// column), of which groups of neighbours are averaged to `out` channels. If the chunk's length is
/// not a multiple of the block's, frames of zeros are added before it.
Tensor average_down(Tensor x, int64_t out, Block block);

/// The reverse for the decoder: every channel is repeated to `out` channels for each position of a
/// block. In the first chunk all frames of a block but the last are dropped, because the level does
/// not double its frame either.
Tensor repeat_up(Tensor x, int64_t out, Block block, bool first);

/// Only frame number `at` of repeat_up(x, out, block, false). `at` is an S32 scalar.
Tensor repeat_up_frame(Tensor x, int64_t out, Block block, Tensor at);

/// Pixels of p x p patches as channels (channel, column, row): [b, c, f, h, w] -> [b, c p p, f,
/// h/p, w/p]; and back.
Tensor patchify(Tensor x, int64_t p);
Tensor unpatchify(Tensor x, int64_t p);

}  // namespace kinema::vae
