#include "kinema/models/dreamer/vectors.h"

#include <limits>
#include <numeric>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/nn/activation.h"
#include "kinema/nn/distributions.h"
#include "kinema/nn/linear.h"

namespace kinema::dreamer {
namespace {

/// pred [n]: whether any element of a row is so.
Tensor any_of_row(Tensor elements) { return any(reshape(elements, {elements.dim(0), -1}), {1}); }

Tensor features_of(const Space& space, Tensor x, bool compress, DType dtype) {
  const int64_t n = x.dim(0);
  Tensor missing;
  Tensor y;
  if (space.is_discrete()) {
    const Tensor index = nn::as(x, DType::S32);
    missing = any_of_row(compare(index, Comparison::EQ, -1.0));
    y = nn::one_hot(index, space.classes, dtype);
  } else {
    const Tensor gone = compare(x, Comparison::EQ, -std::numeric_limits<double>::infinity());
    missing = any_of_row(gone);
    y = select(gone, zeros_like(x), x);
    y = nn::as(compress ? nn::symlog(y) : y, dtype);
  }
  y = reshape(y, {n, space.features()});
  return select(expand_dims(missing, Axis(1)), zeros_like(y), y);
}

}  // namespace

Tensor value_of(const TensorMap& values, const std::string& name) {
  const auto found = values.find(name);
  check(found != values.end(), "[dreamer] there is no value of `{}`", name);
  return found->second;
}

Tensor vector_of(const Spaces& spaces, const TensorMap& values, bool compress, DType dtype) {
  std::vector<Tensor> parts;
  for (const auto& [name, space] : sorted_by_name(spaces)) {
    const Tensor x = value_of(values, name);
    Dims expected = space.shape;
    expected.insert(expected.begin(), x.rank() > 0 ? x.dim(0) : 1);
    check(x.shape().dims == expected, "[dreamer] `{}` is {} but must be {}", name,
          to_string(x.shape()), to_string(expected));
    parts.push_back(features_of(space, x, compress, dtype));
  }
  return parts.size() == 1 ? parts[0] : concatenate(parts, Axis(1));
}

Tensor merge_leading_axes(Tensor x) {
  Dims dims = x.shape().dims;
  check(dims.size() >= 2, "[dreamer] x is {} but must have two axes", to_string(x.shape()));
  dims[1] *= dims[0];
  dims.erase(dims.begin());
  return reshape(x, dims);
}

Tensor split_leading_axis(Tensor x, int64_t a) {
  Dims dims = x.shape().dims;
  dims[0] /= a;
  dims.insert(dims.begin(), a);
  return reshape(x, dims);
}

TensorMap merge_leading_axes(const TensorMap& x) {
  TensorMap out;
  for (const auto& [name, value] : x) {
    out[name] = merge_leading_axes(value);
  }
  return out;
}

Tensor swap_leading_axes(Tensor x) {
  std::vector<int64_t> order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[1]);
  return transpose(x, order);
}

}  // namespace kinema::dreamer
