#pragma once

#include <array>

#include "kinema/graph/ops.h"

namespace kinema::nn {

/// Rotary tables for tokens of a video, f32 [s, 1, d / 2, 2], or [b, s, 1, d / 2, 2] if samples
/// differ: the rotation of neighbouring pairs
/// (x0, x1) is x * cos + (x1, x0) * sin, where the first sine of each pair is stored negated.
struct Rope {
  Tensor cos;
  Tensor sin;
};

/// The channels are divided into frame, row and column parts of d - 4 (d / 6), 2 (d / 6) and 2 (d /
/// 6) channels. Pair j of a part of width D is rotated by position * 10000^(-2 j / D). Angles are
/// computed in f64 on the host, one table per axis, and broadcast over the grid in the program.
///
/// `riflex`: RIFLEx (arXiv:2502.15894) for videos longer than those of the training. Of the frame
/// part, the frequency of this number, from 1, becomes 0.9 * 2 pi / frames, so that it does not
/// complete a period within the video; 0: none does. Throws an Error for a number that is not
/// there.
Rope rope_3d(Graph& graph, std::array<int64_t, 3> grid, int64_t head_dim, int64_t riflex = 0);

struct RopeStart {
  int64_t lead = 0;         // tokens before those of the grid, at position 0 along every axis
  int64_t first_frame = 0;  // the position of the grid's first frame
};

/// The same with the given number of channels per axis (each even). Tokens of text precede those of
/// the grid and are not rotated (Flux).
Rope rope_per_axis(Graph& graph, std::array<int64_t, 3> grid, std::array<int64_t, 3> widths,
                   const RopeStart& start = {});

/// The tables of one axis, f32 [positions, width / 2, 2]: pair j is rotated by position * theta^(-2
/// j / width).
Rope rope_of_axis(Graph& graph, int64_t positions, int64_t width, double theta);

/// x [b, s, n, d] rotated, computed and returned in f32 (f64 for f64).
Tensor rotate(Tensor x, const Rope& rope);

/// The RMS norm of x [b, s, n d] with `weight` f32 [n d], rotated, in x's dtype [b, s, n, d]: one
/// `fused("rms_norm_rotate")`. A backward pass would compute both again.
Tensor norm_and_rotate(Tensor x, Tensor weight, double epsilon, int64_t heads, const Rope& rope);

}  // namespace kinema::nn
