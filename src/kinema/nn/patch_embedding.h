#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// Video latents to tokens: a convolution whose stride equals its kernel size, as one matrix
/// product over the values of each patch. `weight` is [width, c, pf, ph, pw], `bias` [width].
class PatchEmbedding {
 public:
  /// `patch`: its size in frames, rows and columns.
  PatchEmbedding(const Params& params, int64_t channels, int64_t width,
                 const std::array<int64_t, 3>& patch);

  /// [b, c, f, h, w], with f, h and w multiples of the patch, -> [b, s, width] in its dtype. Tokens
  /// are ordered frame, row, column.
  Tensor operator()(Tensor video, Precision precision) const;

 private:
  std::array<int64_t, 3> patch_;
  Tensor weight_;
  Tensor bias_;
  std::optional<QuantizedProduct> quantized_;
};

}  // namespace kinema::nn
