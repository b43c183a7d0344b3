#include "kinema/optimizers/factored.h"

namespace kinema::optimizers {
namespace {

/// A spec without one of its axes, counted from the last.
nn::ParamSpec without_axis(const nn::ParamSpec& spec, int64_t from_last,
                           const std::string& suffix) {
  nn::ParamSpec out = spec;
  out.name += suffix;
  out.shape.dtype = DType::F32;
  out.shape.dims.erase(out.shape.dims.end() - from_last);
  out.axes.resize(static_cast<size_t>(layer_rank(spec)));
  out.axes.erase(out.axes.end() - from_last);
  return out;
}

}  // namespace

bool is_factored(const nn::ParamSpec& spec) { return layer_rank(spec) >= 2; }

std::vector<nn::ParamSpec> factored_specs(const nn::ParamSpec& kept, const std::string& suffix) {
  if (is_factored(kept)) {
    return {without_axis(kept, 1, "." + suffix + "row"),
            without_axis(kept, 2, "." + suffix + "col")};
  }
  nn::ParamSpec squares = kept;
  squares.shape.dtype = DType::F32;
  squares.name += suffix.empty() ? "" : "." + suffix;
  return {squares};
}

std::vector<Tensor> factored(const nn::ParamSpec& spec, Tensor squares) {
  if (!is_factored(spec)) {
    return {squares};
  }
  const int64_t last = squares.rank() - 1;
  return {mean(squares, {last}), mean(squares, {last - 1})};
}

Tensor inverse_root(const nn::ParamSpec& spec, const std::vector<Tensor>& squares) {
  if (!is_factored(spec)) {
    return rsqrt(squares[0]);
  }
  const Tensor row = squares[0];
  const Tensor of_row = rsqrt(row / mean(row, {row.rank() - 1}, /*keep_dims=*/true));
  return expand_dims(of_row, Axis(-1)) * expand_dims(rsqrt(squares[1]), Axis(-2));
}

Tensor rms_of_layer(const nn::ParamSpec& spec, Tensor x) {
  std::vector<int64_t> axes;
  for (int64_t axis = spec.layers > 0 ? 1 : 0; axis < x.rank(); ++axis) {
    axes.push_back(axis);
  }
  return sqrt(axes.empty() ? square(x) : mean(square(x), axes, /*keep_dims=*/true));
}

}  // namespace kinema::optimizers
