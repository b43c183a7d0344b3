#include "kinema/kernels/cpu/strided_dot.h"

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema::kernels {
namespace {

struct Run {
  int64_t size = 1;
  int64_t stride = 1;
};

/// Several axes merged into one, if each stride is the next inner axis's stride times its size.
std::optional<Run> merge(const Dims& sizes, const Dims& strides, const std::vector<int64_t>& axes) {
  Run run;
  bool first = true;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const int64_t size = sizes[static_cast<size_t>(*axis)];
    const int64_t stride = strides[static_cast<size_t>(*axis)];
    if (size == 1) {
      continue;
    }
    if (first) {
      run = {size, stride};
      first = false;
    } else if (stride == run.stride * run.size) {
      run.size *= size;
    } else {
      return std::nullopt;
    }
  }
  return run;
}

std::vector<int64_t> free_axes(size_t rank, const std::vector<int64_t>& batch,
                               const std::vector<int64_t>& contract) {
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < static_cast<int64_t>(rank); ++i) {
    if (std::ranges::find(batch, i) == batch.end() &&
        std::ranges::find(contract, i) == contract.end()) {
      axes.push_back(i);
    }
  }
  return axes;
}

std::vector<int64_t> iota(int64_t first, size_t count) {
  std::vector<int64_t> axes(count);
  for (size_t i = 0; i < count; ++i) {
    axes[i] = first + static_cast<int64_t>(i);
  }
  return axes;
}

bool has_unit_stride(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride) {
  return column_stride == 1 || row_stride == 1 || rows == 1 || columns == 1;
}

}  // namespace

double StridedDot::flops() const {
  double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  for (const BatchLoop& loop : batch) {
    flops *= static_cast<double>(loop.size);
  }
  return flops;
}

Dims dense_strides(const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

std::optional<StridedDot> strided_dot(const Dims& a, const Dims& a_strides, const Dims& b,
                                      const Dims& b_strides, const Dims& c_strides,
                                      const DotDims& dims) {
  const auto a_free = free_axes(a.size(), dims.lhs_batch, dims.lhs_contract);
  const auto b_free = free_axes(b.size(), dims.rhs_batch, dims.rhs_contract);
  Dims c;  // sizes of the result's axes
  for (const int64_t axis : dims.lhs_batch) c.push_back(a[static_cast<size_t>(axis)]);
  for (const int64_t axis : a_free) c.push_back(a[static_cast<size_t>(axis)]);
  for (const int64_t axis : b_free) c.push_back(b[static_cast<size_t>(axis)]);
  const auto batches = static_cast<int64_t>(dims.lhs_batch.size());
  const auto rows = static_cast<int64_t>(a_free.size());
  const auto a_m = merge(a, a_strides, a_free);
  const auto a_k = merge(a, a_strides, dims.lhs_contract);
  const auto b_k = merge(b, b_strides, dims.rhs_contract);
  const auto b_n = merge(b, b_strides, b_free);
  const auto c_m = merge(c, c_strides, iota(batches, a_free.size()));
  const auto c_n = merge(c, c_strides, iota(batches + rows, b_free.size()));
  if (!a_m || !a_k || !b_k || !b_n || !c_m || !c_n) {
    return std::nullopt;
  }
  StridedDot dot{a_m->size,   b_n->size,   a_k->size,   a_m->stride, a_k->stride,
                 b_k->stride, b_n->stride, c_m->stride, c_n->stride, {}};
  if (!has_unit_stride(dot.m, dot.a_m, dot.k, dot.a_k) ||
      !has_unit_stride(dot.k, dot.b_k, dot.n, dot.b_n) ||
      !has_unit_stride(dot.m, dot.c_m, dot.n, dot.c_n)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < dims.lhs_batch.size(); ++i) {
    const auto left = static_cast<size_t>(dims.lhs_batch[i]);
    const auto right = static_cast<size_t>(dims.rhs_batch[i]);
    dot.batch.push_back({a[left], a_strides[left], b_strides[right], c_strides[i]});
  }
  return dot;
}

std::vector<int64_t> to_words(const StridedDot& dot) {
  std::vector<int64_t> words{dot.m,   dot.n,   dot.k,   dot.a_m, dot.a_k,
                             dot.b_k, dot.b_n, dot.c_m, dot.c_n};
  for (const BatchLoop& loop : dot.batch) {
    words.insert(words.end(), {loop.size, loop.a, loop.b, loop.c});
  }
  return words;
}

StridedDot from_words(const int64_t* words, int64_t count) {
  check(count >= 9 && (count - 9) % 4 == 0, "[dot kernel] a plan has {} words", count);
  StridedDot dot{words[0], words[1], words[2], words[3], words[4],
                 words[5], words[6], words[7], words[8], {}};
  for (int64_t i = 9; i < count; i += 4) {
    dot.batch.push_back({words[i], words[i + 1], words[i + 2], words[i + 3]});
  }
  return dot;
}

}  // namespace kinema::kernels
