#pragma once

#include <array>

#include "kinema/graph/ops.h"

namespace kinema::nn {

/// Rotary tables for tokens of a video, f32 [s, 1, d / 2, 2]: the rotation of neighbouring pairs
/// (x0, x1) is x * cos + (x1, x0) * sin, with the sign of the pair's first sine already negative.
struct Rope {
  Tensor cos;
  Tensor sin;
};

/// Positions (frame, row, column) of an f x h x w grid, column fastest, for heads of `head_dim`.
///
/// The channels split into frame, row and column parts of sizes d - 4 (d / 6), 2 (d / 6), 2 (d /
/// 6); pair j of a part of width D turns by position * 10000^(-2 j / D). Angles are computed in f64
/// on the host, one table per axis, and spread over the grid in the program.
Rope rope_3d(Graph& graph, std::array<int64_t, 3> grid, int64_t head_dim);

/// The same with so many channels, an even number, for each axis. `lead` tokens come before those
/// of the grid and are not turned: text, whose position is 0 along every axis (Flux).
Rope rope_of_axes(Graph& graph, std::array<int64_t, 3> grid, std::array<int64_t, 3> widths,
                  int64_t lead = 0);

/// x [b, s, n, d] rotated, computed in f32 (f64 for f64) and returned in it.
Tensor rotate(Tensor x, const Rope& rope);

/// The RMS norm of x [b, s, n d] with `weight` f32 [n d], rotated, in x's dtype [b, s, n, d]: one
/// `fused("rms_norm_rotate")`. The backward pass would compute both again.
Tensor normed_rotation(Tensor x, Tensor weight, double epsilon, int64_t heads, const Rope& rope);

}  // namespace kinema::nn
