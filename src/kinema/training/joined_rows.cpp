#include "kinema/training/joined_rows.h"

#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"

namespace kinema::training {

JoinedRows::JoinedRows(std::vector<Shape> shapes) : shapes_(std::move(shapes)), starts_{0} {
  for (const Shape& shape : shapes_) {
    starts_.push_back(starts_.back() + rows_of(shape));
  }
}

int64_t JoinedRows::rows_of(const Shape& shape) const {
  return (shape.elements() + kColumns - 1) / kColumns;
}

Tensor JoinedRows::join(std::span<const Tensor> tensors) const {
  check(tensors.size() == shapes_.size(), "[join] {} tensors were given for {} shapes",
        tensors.size(), shapes_.size());
  std::vector<Tensor> parts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t elements = shapes_[i].elements();
    const Tensor flat = reshape(convert(tensors[i], DType::F32), {elements});
    const int64_t missing = rows_of(shapes_[i]) * kColumns - elements;
    parts.push_back(missing > 0 ? pad(flat, Axis(0), 0, missing) : flat);
  }
  return reshape(concatenate(parts, Axis(0)), {starts_.back(), kColumns});
}

std::vector<Tensor> JoinedRows::split(Tensor matrix) const {
  const Tensor flat = reshape(matrix, {-1});
  std::vector<Tensor> out;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    out.push_back(reshape(slice(flat, Axis(0), starts_[i] * kColumns, shapes_[i].elements()),
                          shapes_[i].dims));
  }
  return out;
}

/// [tensors, rows]: 1 where the row is one of the tensor's.
Tensor JoinedRows::members(Graph& graph) const {
  const auto count = static_cast<int64_t>(shapes_.size());
  std::vector<float> begin;
  std::vector<float> end;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    begin.push_back(static_cast<float>(starts_[i]));
    end.push_back(static_cast<float>(starts_[i + 1]));
  }
  const Tensor row = iota(graph, {DType::F32, {count, starts_.back()}}, Axis(1));
  const auto is = [&](Comparison how, const std::vector<float>& bound) {
    return convert(compare(row, how, constant_f32(graph, {count, 1}, bound)), DType::F32);
  };
  return is(Comparison::GE, begin) * is(Comparison::LT, end);
}

Tensor JoinedRows::sums(Tensor matrix) const {
  return dot_general(members(matrix.graph()), sum(matrix, {1}),
                     {.lhs_contract = {1}, .rhs_contract = {0}}, Precision::HIGHEST);
}

Tensor JoinedRows::spread(Tensor numbers) const {
  return expand_dims(dot_general(members(numbers.graph()), numbers,
                                 {.lhs_contract = {0}, .rhs_contract = {0}}, Precision::HIGHEST),
                     Axis(1));
}

}  // namespace kinema::training
