#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/graph.h"

/// Shared by the calls of cuDNN's 16-bit and 8-bit attention.
namespace kinema::kernels {

/// Layout of results [b, n, s, d] stored as [b, s, n, d], so that the transpose after the call
/// copies nothing.
inline const std::vector<int64_t> kHeadsInside{3, 1, 2, 0};
/// Layout of a log-sum-exp [b, n, s].
inline const std::vector<int64_t> kRows{2, 1, 0};
/// Layout of a workspace.
inline const std::vector<int64_t> kBytes{0};

/// Sizes of q [b, s, n, d] and k [b, t, n, d].
struct CudnnSizes {
  int64_t b, s, t, n, d;
};
CudnnSizes sizes_of(std::span<const Tensor> in);

enum class Pass : uint8_t { FORWARD, BACKWARD };

/// The call's backend configuration, JSON. `dtype` is that of the scores, which stay inside.
std::string cudnn_configuration(const CudnnSizes& of, DType dtype, double scale, bool masked,
                                Pass pass);

/// Workspace bytes of the forward pass.
int64_t forward_workspace(std::string_view chip);

/// A result in the layout of attention: [b, s, n, d] of `dtype`.
Tensor heads_last(Tensor x, DType dtype);

}  // namespace kinema::kernels
