#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kinema/graph/tensor.h"

namespace kinema::training {

/// Tensors of any shape as the rows of one matrix, so that arithmetic on all of them is one
/// operation. Each tensor begins a row of its own; the rest of its last row is zeros.
class JoinedRows {
 public:
  explicit JoinedRows(std::vector<Shape> shapes);

  /// F32 [rows, kColumns]; `tensors` have the shapes and any float dtype.
  Tensor join(std::span<const Tensor> tensors) const;
  /// The tensors of a matrix, F32, in their shapes.
  std::vector<Tensor> split(Tensor matrix) const;

  /// The sum over each tensor's elements, F32 [tensors].
  Tensor sums(Tensor matrix) const;
  /// Each tensor's number [tensors] for all of its rows, F32 [rows, 1].
  Tensor spread(Tensor numbers) const;

  static constexpr int64_t kColumns = 64;

 private:
  int64_t rows_of(const Shape& shape) const;
  Tensor members(Graph& graph) const;

  std::vector<Shape> shapes_;
  std::vector<int64_t> starts_;  // first row of each tensor, then the number of rows
};

}  // namespace kinema::training
