#pragma once

#include <map>
#include <string>

#include "kinema/graph/ops.h"
#include "kinema/models/dreamer/config.h"

namespace kinema::dreamer {

/// Tensors by name: observations, actions, losses.
using TensorMap = std::map<std::string, Tensor>;

/// Observations or actions as one vector: values [n, ...] of each space, in the order of names ->
/// [n, features] of `dtype`. Integers become one-hot rows, floats go through symlog where asked. A
/// row's space counts as missing, and becomes zeros, where an integer is -1 or a float -infinity.
/// Images may not be among the spaces.
Tensor vector_of(const Spaces& spaces, const TensorMap& values, bool compress, DType dtype);

/// x [a, b, ...] -> [a b, ...], and back.
Tensor merge_leading_axes(Tensor x);
Tensor split_leading_axis(Tensor x, int64_t a);
/// Every tensor of a map so.
TensorMap merge_leading_axes(const TensorMap& x);

/// x [a, b, ...] -> [b, a, ...].
Tensor swap_leading_axes(Tensor x);

/// The value; throws an Error that names it where it is missing.
Tensor value_of(const TensorMap& values, const std::string& name);

}  // namespace kinema::dreamer
