#pragma once

#include <optional>

#include "kinema/models/vae/layers.h"

namespace kinema::vae {

/// Half the rows and columns by a convolution that is padded below and to the right only; with
/// `time` also half the frames, the first chunk excepted.
class Downsample {
 public:
  Downsample(const nn::Params& params, int64_t dim, bool time);

  /// x [b, c, f, h, w] with even h and w, f even where it halves -> [b, c, f(/2), h/2, w/2].
  Tensor operator()(Tensor x, History& history, const Compute& compute) const;

 private:
  Conv conv_;
  std::optional<Conv> time_;
};

/// Twice the rows and columns, repeated and then smoothed by a convolution; with `time` first twice
/// the frames, the first chunk excepted.
class Upsample {
 public:
  Upsample(const nn::Params& params, int64_t in, int64_t out, bool time);

  /// x [b, in, f, h, w] -> [b, in, (2)f, h, w].
  Tensor in_time(Tensor x, History& history, const Compute& compute) const;
  /// x [b, in, f, h, w] -> [b, out, f, 2h, 2w]; a frame depends on no other.
  Tensor in_space(Tensor x, const History& history, const Compute& compute) const;

 private:
  Conv conv_;
  std::optional<Conv> time_;
};

/// Blocks of frames, rows and columns: `space` counts for both of the latter.
struct Block {
  int64_t time = 1;
  int64_t space = 1;
  int64_t size() const { return time * space * space; }
};

/// Wan 2.2's shortcut around a level of the encoder: blocks become channels (channel, frame, row,
/// column), of which as many neighbours are averaged as leaves `out`. A chunk that is no whole
/// number of blocks long has frames of zeros in front.
Tensor average_down(Tensor x, int64_t out, Block block);

/// The reverse for the decoder: every channel is repeated until there are `out` for each place of a
/// block. In the first chunk, whose frame the other way does not double either, the frames but the
/// last of a block are dropped.
Tensor repeat_up(Tensor x, int64_t out, Block block, bool first);

/// Frame number `at` of repeat_up(x, out, block, false) alone. `at` is an S32 scalar.
Tensor repeat_up_frame(Tensor x, int64_t out, Block block, Tensor at);

/// Pixels of p x p patches as channels (channel, column, row): [b, c, f, h, w] -> [b, c p p, f,
/// h/p, w/p]; and back.
Tensor patchify(Tensor x, int64_t p);
Tensor unpatchify(Tensor x, int64_t p);

}  // namespace kinema::vae
