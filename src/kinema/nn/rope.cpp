#include "kinema/nn/rope.h"

#include <cmath>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/scan.h"
#include "kinema/kernels/settings.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"

namespace kinema::nn {
namespace {

constexpr double kTheta = 10000.0;  // base of the frequencies, section 3.4.2 of arXiv:2104.09864

/// Values of one axis, f32 [size, width / 2, 2]; `sign` multiplies the first of each pair.
Tensor axis_table(Graph& graph, int64_t size, int64_t width, double (*function)(double),
                  float sign) {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(size * width));
  for (int64_t position = 0; position < size; ++position) {
    for (int64_t j = 0; j < width / 2; ++j) {
      const double exponent = -2.0 * static_cast<double>(j) / static_cast<double>(width);
      const double angle = static_cast<double>(position) * std::pow(kTheta, exponent);
      const auto value = static_cast<float>(function(angle));
      values.push_back(sign * value);
      values.push_back(value);
    }
  }
  return constant_f32(graph, {size, width / 2, 2}, values);
}

Tensor grid_table(Graph& graph, std::array<int64_t, 3> grid, std::array<int64_t, 3> widths,
                  int64_t lead, double (*function)(double), float sign) {
  std::vector<Tensor> parts;
  int64_t head_dim = 0;
  for (int64_t axis = 0; axis < 3; ++axis) {
    head_dim += widths[axis];
    if (widths[axis] > 0) {
      const Tensor table = axis_table(graph, grid[axis], widths[axis], function, sign);
      parts.push_back(
          broadcast_in_dim(table, {grid[0], grid[1], grid[2], widths[axis] / 2, 2}, {axis, 3, 4}));
    }
  }
  const Tensor of_grid =
      reshape(concatenate(parts, Axis(3)), {grid[0] * grid[1] * grid[2], 1, head_dim / 2, 2});
  if (lead == 0) {
    return of_grid;
  }
  const Tensor before = constant(graph, function(0.0), {DType::F32, {lead, 1, head_dim / 2, 2}});
  return concatenate({before, of_grid}, Axis(0));
}

}  // namespace

Rope rope_3d(Graph& graph, std::array<int64_t, 3> grid, int64_t head_dim) {
  check(head_dim > 0 && head_dim % 2 == 0, "[rope] heads of {} channels cannot be paired",
        head_dim);
  const int64_t side = 2 * (head_dim / 6);
  return rope_of_axes(graph, grid, {head_dim - 2 * side, side, side});
}

Rope rope_of_axes(Graph& graph, std::array<int64_t, 3> grid, std::array<int64_t, 3> widths,
                  int64_t lead) {
  for (const int64_t width : widths) {
    check(width >= 0 && width % 2 == 0, "[rope] {} channels of an axis cannot be paired", width);
  }
  return {.cos = grid_table(graph, grid, widths, lead, std::cos, 1.0F),
          .sin = grid_table(graph, grid, widths, lead, std::sin, -1.0F)};
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

Tensor normed_rotation(Tensor x, Tensor weight, double epsilon, int64_t heads, const Rope& rope) {
  return fused(
      "rms_norm_rotate", kernels::RmsNormRotateSettings{epsilon}, {x, weight, rope.cos, rope.sin},
      [&](std::span<const Tensor> in) -> std::vector<Tensor> {
        const Tensor y = rms_norm(widened(in[0]), epsilon) * as(in[1], widened(in[0]).dtype());
        const Tensor split = reshape(y, {y.dim(0), y.dim(1), heads, y.dim(2) / heads});
        return {as(rotate(split, {.cos = in[2], .sin = in[3]}), x.dtype())};
      })[0];
}

}  // namespace kinema::nn
