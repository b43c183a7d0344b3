#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/ops/precision.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

// Axes 0 .. rank-1 that are in neither list, ascending.
std::vector<int64_t> rest(int64_t rank, const std::vector<int64_t>& batch,
                          const std::vector<int64_t>& contract) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < rank; ++i) {
    if (std::ranges::find(batch, i) == batch.end() &&
        std::ranges::find(contract, i) == contract.end()) {
      out.push_back(i);
    }
  }
  return out;
}

void check_axes(const Shape& x, const char* side, const std::vector<int64_t>& batch,
                const std::vector<int64_t>& contract) {
  std::vector<int64_t> named = batch;
  named.insert(named.end(), contract.begin(), contract.end());
  for (const int64_t axis : named) {
    check(axis >= 0 && axis < x.rank() && std::ranges::count(named, axis) == 1,
          "[dot_general] axis {} of the {} operand {} is outside it or named twice", axis, side,
          to_string(x));
  }
}

void check_pairs(const Node& node, const char* role, const std::vector<int64_t>& lhs,
                 const std::vector<int64_t>& rhs) {
  const Shape& a = node.shape(0);
  const Shape& b = node.shape(1);
  check(lhs.size() == rhs.size(), "[dot_general] {} {} axes of {} against {} of {}", lhs.size(),
        role, to_string(a), rhs.size(), to_string(b));
  for (size_t i = 0; i < lhs.size(); ++i) {
    check(a.dims[static_cast<size_t>(lhs[i])] == b.dims[static_cast<size_t>(rhs[i])],
          "[dot_general] {} and {}: {} axes {} and {} differ in size", to_string(a), to_string(b),
          role, lhs[i], rhs[i]);
  }
}

bool allows_output(DType in, DType out) {
  if (is_f8(in)) {
    return out == DType::BF16 || out == DType::F16 || out == DType::F32;
  }
  return in != DType::PRED &&
         (out == in || out == accumulation_dtype(in) || (in == DType::S8 && out == DType::S32));
}

Shape dot_shape(const Node& node) {
  const auto& [dims, precision, out] = node.get<DotAttrs>();
  const Shape& a = node.shape(0);
  const Shape& b = node.shape(1);
  if (!is_f8(a.dtype) || !is_f8(b.dtype)) {
    check_same_dtype("dot_general", a, b);
  }
  check(allows_output(a.dtype, out),
        "[dot_general] {} times {} cannot give {}: the operands' dtype, f32 for bf16 and f16, s32 "
        "for s8, a wider float for f8",
        to_string(a), to_string(b), to_string(out));
  check_axes(a, "left", dims.lhs_batch, dims.lhs_contract);
  check_axes(b, "right", dims.rhs_batch, dims.rhs_contract);
  check_pairs(node, "batch", dims.lhs_batch, dims.rhs_batch);
  check_pairs(node, "contracted", dims.lhs_contract, dims.rhs_contract);
  Shape y{out, {}};
  for (const int64_t axis : dims.lhs_batch) {
    y.dims.push_back(a.dims[static_cast<size_t>(axis)]);
  }
  for (const int64_t axis : rest(a.rank(), dims.lhs_batch, dims.lhs_contract)) {
    y.dims.push_back(a.dims[static_cast<size_t>(axis)]);
  }
  for (const int64_t axis : rest(b.rank(), dims.rhs_batch, dims.rhs_contract)) {
    y.dims.push_back(b.dims[static_cast<size_t>(axis)]);
  }
  return y;
}

std::vector<int64_t> run(int64_t start, size_t count) {
  std::vector<int64_t> out(count);
  for (size_t i = 0; i < count; ++i) {
    out[i] = start + static_cast<int64_t>(i);
  }
  return out;
}

// One operand of the node.
struct Side {
  int64_t rank;
  std::vector<int64_t> batch, contract;

  size_t free_axes() const { return static_cast<size_t>(rank) - batch.size() - contract.size(); }
};

// The gradient of `mine`: dy times `other`, x, over other's free axes, with the axes in their
// original order. `dy_other` are the axes of dy that come from the other operand.
Tensor side_gradient(const Side& mine, const Side& other, Tensor x, Tensor dy,
                     const std::vector<int64_t>& dy_other, Precision precision, DType out) {
  const std::vector<int64_t> free = rest(mine.rank, mine.batch, mine.contract);
  const Tensor product = dot_general(dy, x,
                                     {.lhs_contract = dy_other,
                                      .rhs_contract = rest(other.rank, other.batch, other.contract),
                                      .lhs_batch = run(0, mine.batch.size()),
                                      .rhs_batch = other.batch},
                                     precision, out);
  // product: batch, my free axes, then other's contracted axes in ascending order, each paired with
  // one of mine.
  std::vector<int64_t> source = mine.batch;
  source.insert(source.end(), free.begin(), free.end());
  std::vector<int64_t> rising = other.contract;
  std::ranges::sort(rising);
  for (const int64_t axis : rising) {
    const auto pair = std::ranges::find(other.contract, axis) - other.contract.begin();
    source.push_back(mine.contract[static_cast<size_t>(pair)]);
  }
  std::vector<int64_t> order(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    order[static_cast<size_t>(source[i])] = static_cast<int64_t>(i);
  }
  return transpose(product, order);
}

// y = sum over the contracted axes of a b,  da = dy b^T,  db = dy^T a. The cotangent is rounded to
// the operands' dtype, so that the backward products cost as much as the forward one; they still
// accumulate in f32.
Cotangents dot_gradient(Tensor y, Tensor dy) {
  const auto& [dims, precision, out] = y.node().get<DotAttrs>();
  const Tensor a = y.node().input(0);
  const Tensor b = y.node().input(1);
  if (is_integer(a.dtype()) || is_f8(a.dtype())) {
    return {Tensor(), Tensor()};
  }
  dy = convert(dy, a.dtype());
  return {dot_gradient_of_a(dy, a.shape(), b, dims, precision, a.dtype()),
          dot_gradient_of_b(dy, a, b.shape(), dims, precision, a.dtype())};
}

}  // namespace

const Op kDotGeneral{
    .name = "dot_general",
    .infer = dot_shape,
    .gradient = dot_gradient,
    .mlir = "stablehlo.dot_general",
    .attributes = [](const Node& node) -> std::string {
      const auto& [dims, precision, out] = node.get<DotAttrs>();
      return fmt::format(
          "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {}, "
          "rhs_batching_dimensions = {}, lhs_contracting_dimensions = {}, "
          "rhs_contracting_dimensions = {}>, {}",
          i64_list(dims.lhs_batch), i64_list(dims.rhs_batch), i64_list(dims.lhs_contract),
          i64_list(dims.rhs_contract), precision_attribute(precision));
    },
};

std::span<const Op* const> dot_ops() {
  static constexpr const Op* kOps[] = {&kDotGeneral};
  return kOps;
}

std::string precision_attribute(Precision precision) {
  const char* word = precision == Precision::DEFAULT ? "DEFAULT"
                     : precision == Precision::HIGH  ? "HIGH"
                                                     : "HIGHEST";
  return fmt::format("precision_config = [#stablehlo<precision {}>, #stablehlo<precision {}>]",
                     word, word);
}

Tensor dot_general(Tensor a, Tensor b, DotDims dims, Precision precision) {
  return dot_general(a, b, std::move(dims), precision, a.dtype());
}

Tensor dot_general(Tensor a, Tensor b, DotDims dims, Precision precision, DType out) {
  return apply(kDotGeneral, {a, b}, DotAttrs{std::move(dims), precision, out});
}

Tensor dot_gradient_of_a(Tensor dy, const Shape& a, Tensor b, const DotDims& dims,
                         Precision precision, DType out) {
  const Side mine{a.rank(), dims.lhs_batch, dims.lhs_contract};
  const Side other{b.rank(), dims.rhs_batch, dims.rhs_contract};
  const auto start = static_cast<int64_t>(mine.batch.size() + mine.free_axes());
  return side_gradient(mine, other, b, dy, run(start, other.free_axes()), precision, out);
}

Tensor dot_gradient_of_b(Tensor dy, Tensor a, const Shape& b, const DotDims& dims,
                         Precision precision, DType out) {
  const Side mine{b.rank(), dims.rhs_batch, dims.rhs_contract};
  const Side other{a.rank(), dims.lhs_batch, dims.lhs_contract};
  const auto start = static_cast<int64_t>(mine.batch.size());
  return side_gradient(mine, other, a, dy, run(start, other.free_axes()), precision, out);
}

Tensor matmul(Tensor a, Tensor b, Precision precision) {
  check(a.rank() >= 2 && a.rank() == b.rank(),
        "[matmul] {} and {}: both need the same number of axes, two or more", to_string(a.shape()),
        to_string(b.shape()));
  const int64_t n = a.rank();
  const std::vector<int64_t> batch = run(0, static_cast<size_t>(n - 2));
  return dot_general(a, b, {{n - 1}, {n - 2}, batch, batch}, precision);
}

}  // namespace kinema
