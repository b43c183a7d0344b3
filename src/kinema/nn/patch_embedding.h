#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// Latents of a video to tokens: a convolution whose kernel is its stride, as one matrix product
/// over the pixels of each patch. `weight` is [width, c, pf, ph, pw], `bias` [width].
class PatchEmbedding {
 public:
  /// `patch`: frames, rows and columns of one.
  PatchEmbedding(const Params& params, int64_t channels, int64_t width,
                 const std::array<int64_t, 3>& patch);

  /// [b, c, f, h, w], whose last three are multiples of the patch, -> [b, s, width] in its dtype,
  /// tokens ordered frame, row, column.
  Tensor operator()(Tensor video, Precision precision) const;

 private:
  std::array<int64_t, 3> patch_;
  Tensor weight_;
  Tensor bias_;
  std::optional<QuantizedProduct> quantized_;
};

}  // namespace kinema::nn
