#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/graph.h"

/// What the calls of cuDNN's attention have in common, in 16 bits and in 8.
namespace kinema::kernels {

/// Results are [b, n, s, d] and lie in memory as [b, s, n, d]: the transpose after the call moves
/// nothing.
inline const std::vector<int64_t> kHeadsInside{3, 1, 2, 0};
/// Of a log-sum-exp [b, n, s].
inline const std::vector<int64_t> kRows{2, 1, 0};
/// Of a workspace.
inline const std::vector<int64_t> kBytes{0};

/// Of q [b, s, n, d] and k [b, t, n, d].
struct CudnnSizes {
  int64_t b, s, t, n, d;
};
CudnnSizes sizes_of(std::span<const Tensor> in);

enum class Pass : uint8_t { FORWARD, BACKWARD };

/// The call's configuration, JSON. `dtype` is that of the scores' tensor, which nobody sees.
std::string cudnn_configuration(const CudnnSizes& of, DType dtype, double scale, bool masked,
                                Pass pass);

/// Bytes that the forward pass works in.
int64_t forward_workspace(std::string_view chip);

/// A result as attention gives it: [b, s, n, d] of `dtype`.
Tensor heads_last(Tensor x, DType dtype);

}  // namespace kinema::kernels
