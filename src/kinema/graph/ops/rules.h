#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kinema/graph/op.h"
#include "kinema/graph/tensor.h"

/// Shape rules and attribute texts that several op families share.
namespace kinema {

/// The shape of the first input.
Shape same_as_first(const Node& node);
/// The same; the input must be floating-point.
Shape same_float(const Node& node);
/// The same; the input must be signed or floating-point.
Shape same_signed(const Node& node);
/// The same; all inputs must have one shape.
Shape same_for_all(const Node& node);

/// Sizes of `a` and `b` broadcast together; throws an Error with `op` and both shapes.
Dims broadcast_dims(const char* op, const Shape& a, const Shape& b);
/// Throws an Error with `op` and both shapes if the dtypes differ.
void check_same_dtype(const char* op, const Shape& a, const Shape& b);
/// A splat of `x`'s shape and dtype in `x`'s graph.
Tensor full_like(Tensor x, double value);
/// The axes as sorted positions; no axes = all. Throws an Error for a repeated axis.
std::vector<int64_t> resolve_axes(const char* op, const Shape& shape, std::vector<int64_t> axes);
/// F32 for BF16 and F16, otherwise the dtype itself: the dtype in which sums and norms are
/// computed.
DType accumulation_dtype(DType dtype);

/// `array<i64: 1, 2>`, or `array<i64>` when empty.
std::string i64_array(const std::vector<int64_t>& values);
/// `[1, 2]`.
std::string i64_list(const std::vector<int64_t>& values);
/// One value in MLIR's form inside `dense<>`: exact for every dtype.
std::string mlir_literal(double value, DType dtype);

/// The first result of a node that is being emitted.
Tensor result_of(const Node& node);
/// `"stablehlo.constant"` of a splat under a fresh name, which is returned.
std::string emit_splat(Emitter& out, const Node& node, const std::string& literal,
                       const Shape& shape);

}  // namespace kinema
