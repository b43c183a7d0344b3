#include "kinema/nn/rope.h"

#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/kernels/settings.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"

namespace kinema::nn {
namespace {

constexpr double kTheta = 10000.0;  // base of the frequencies, section 3.4.2 of arXiv:2104.09864

/// Radians per position of an axis' pairs.
std::vector<double> frequencies(int64_t width) {
  std::vector<double> out;
  for (int64_t j = 0; j < width / 2; ++j) {
    out.push_back(std::pow(kTheta, -2.0 * static_cast<double>(j) / static_cast<double>(width)));
  }
  return out;
}

/// Frequencies by axis.
using Frequencies = std::array<std::vector<double>, 3>;

/// Values of one axis from position `first`, f32 [size, pairs, 2]; `sign` multiplies the first of
/// each pair.
Tensor axis_table(Graph& graph, int64_t first, int64_t size, std::span<const double> frequencies,
                  double (*function)(double), float sign) {
  std::vector<float> values;
  values.reserve(2 * static_cast<size_t>(size) * frequencies.size());
  for (int64_t position = first; position < first + size; ++position) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      const auto value = static_cast<float>(function(angle));
      values.push_back(sign * value);
      values.push_back(value);
    }
  }
  return constant_f32(graph, {size, std::ssize(frequencies), 2}, values);
}

Tensor grid_table(Graph& graph, std::array<int64_t, 3> grid, const Frequencies& frequencies,
                  const RopeStart& start, double (*function)(double), float sign) {
  std::vector<Tensor> parts;
  int64_t pairs = 0;
  for (int64_t axis = 0; axis < 3; ++axis) {
    const auto& own = frequencies[static_cast<size_t>(axis)];
    const int64_t size = grid[static_cast<size_t>(axis)];
    pairs += std::ssize(own);
    if (!own.empty()) {
      const Tensor table =
          axis_table(graph, axis == 0 ? start.first_frame : 0, size, own, function, sign);
      parts.push_back(
          broadcast_in_dim(table, {grid[0], grid[1], grid[2], std::ssize(own), 2}, {axis, 3, 4}));
    }
  }
  const Tensor of_grid =
      reshape(concatenate(parts, Axis(3)), {grid[0] * grid[1] * grid[2], 1, pairs, 2});
  if (start.lead == 0) {
    return of_grid;
  }
  const Tensor before = constant(graph, function(0.0), {DType::F32, {start.lead, 1, pairs, 2}});
  return concatenate({before, of_grid}, Axis(0));
}

Rope rope(Graph& graph, std::array<int64_t, 3> grid, const Frequencies& frequencies,
          const RopeStart& start) {
  return {.cos = grid_table(graph, grid, frequencies, start, std::cos, 1.0F),
          .sin = grid_table(graph, grid, frequencies, start, std::sin, -1.0F)};
}

}  // namespace

Rope rope_3d(Graph& graph, std::array<int64_t, 3> grid, int64_t head_dim, int64_t riflex) {
  check(head_dim > 0 && head_dim % 2 == 0, "[rope] heads of {} channels cannot be paired",
        head_dim);
  const int64_t side = 2 * (head_dim / 6);
  Frequencies all{frequencies(head_dim - 2 * side), frequencies(side), frequencies(side)};
  check(riflex >= 0 && riflex <= std::ssize(all[0]),
        "[rope] riflex_frequency is {}, expected 0 (off) to {}, the frequencies of the frame axis",
        riflex, all[0].size());
  if (riflex > 0) {
    all[0][static_cast<size_t>(riflex - 1)] =
        0.9 * 2 * std::numbers::pi / static_cast<double>(grid[0]);
  }
  return rope(graph, grid, all, {});
}

Rope rope_per_axis(Graph& graph, std::array<int64_t, 3> grid, std::array<int64_t, 3> widths,
                   const RopeStart& start) {
  for (const int64_t width : widths) {
    check(width >= 0 && width % 2 == 0, "[rope] {} channels of an axis cannot be paired", width);
  }
  return rope(graph, grid, {frequencies(widths[0]), frequencies(widths[1]), frequencies(widths[2])},
              start);
}

Tensor rotate(Tensor x, const Rope& rope) {
  x = widened(x);
  const int64_t b = x.dim(0);
  const int64_t s = x.dim(1);
  const int64_t n = x.dim(2);
  const int64_t d = x.dim(3);
  // Only the swap uses pairs: an axis of size two vectorises worst.
  const Tensor swapped = reshape(reverse(reshape(x, {b, s, n, d / 2, 2}), Axis(4)), {b, s, n, d});
  const auto table = [&](Tensor of_pairs) { return reshape(as(of_pairs, x.dtype()), {s, 1, d}); };
  return x * table(rope.cos) + swapped * table(rope.sin);
}

Tensor norm_and_rotate(Tensor x, Tensor weight, double epsilon, int64_t heads, const Rope& rope) {
  return fused(
      "rms_norm_rotate", kernels::RmsNormRotateSettings{epsilon}, {x, weight, rope.cos, rope.sin},
      [&](std::span<const Tensor> in) -> std::vector<Tensor> {
        const Tensor y = rms_norm(widened(in[0]), epsilon) * as(in[1], widened(in[0]).dtype());
        const Tensor split = reshape(y, {y.dim(0), y.dim(1), heads, y.dim(2) / heads});
        return {as(rotate(split, {.cos = in[2], .sin = in[3]}), x.dtype())};
      })[0];
}

}  // namespace kinema::nn
