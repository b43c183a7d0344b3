#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/kernels/kernel_text.h"
#include "kinema/kernels/settings.h"

/// Norm and rotation of queries or keys in one pass over memory, as a Triton kernel: each program
/// of its grid handles one token.
namespace kinema::kernels {

namespace triton {

struct NormRotateWork {
  int64_t rows = 1;    // of all samples
  int64_t tokens = 1;  // rows of one sample and of the tables
  int64_t heads = 1;
  int64_t width = 64;
  DType dtype = DType::BF16;
  double epsilon = 1e-6;
};

/// Warps (of 32 threads) per token.
inline constexpr int64_t kNormWarps = 8;

/// x [rows, heads width], weight f32 [heads width], cos, sin f32 [tokens, width] -> y, x's shape.
KernelText norm_rotate(const NormRotateWork& work);

}  // namespace triton

/// Why the kernel does not support x [b, s, n d] with y [b, s, n, d], and what it supports; empty
/// if it does.
std::string norm_rotate_refusal(const Shape& x, const Shape& y);

/// Inputs and results as in `fused("rms_norm_rotate")`; `y` is the result's shape.
std::vector<Tensor> triton_norm_rotate(std::span<const Tensor> in, const Shape& y,
                                       const RmsNormRotateSettings& settings);

}  // namespace kinema::kernels
