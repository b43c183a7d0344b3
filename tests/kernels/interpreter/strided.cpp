#include "kernels/interpreter/strided.h"

#include <algorithm>

#include "kinema/kernels/cpu/vector_loop.h"

namespace kinema::interpreter {
namespace {

template <typename T>
void copy_row(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t count,
              Copy copy) {
  if (copy == Copy::ADD) {
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] += from[i * from_stride];
  } else if (from_stride == 1 && to_stride == 1) {
    std::copy_n(from, count, to);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
  }
}

template <typename T>
void copy_all(const std::vector<T>& from, const Walk& read, std::vector<T>* to, const Walk& write,
              const Dims& sizes, Copy copy) {
  const size_t rank = sizes.size();
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
  Dims index(rank, 0);
  while (true) {
    int64_t source = read.start;
    int64_t target = write.start;
    for (size_t i = 0; i + 1 < rank; ++i) {
      source += index[i] * read.strides[i];
      target += index[i] * write.strides[i];
    }
    copy_row(from.data() + source, rank == 0 ? 1 : read.strides[rank - 1], to->data() + target,
             rank == 0 ? 1 : write.strides[rank - 1], rank == 0 ? 1 : sizes[rank - 1], copy);
    size_t axis = rank;
    do {
      if (axis <= 1) return;
      --axis;
    } while (++index[axis - 1] == sizes[axis - 1] && (index[axis - 1] = 0, true));
  }
}

constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 32;

// A tile of c stays in registers over all of k.
template <int64_t rows, int64_t columns>
[[gnu::always_inline]] inline void tile(const float* a, const float* b, float* c, int64_t k,
                                        int64_t n) {
  float sums[rows][columns];
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) sums[i][j] = 0.0F;
  }
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t i = 0; i < rows; ++i) {
      const float x = a[i * k + p];
      for (int64_t j = 0; j < columns; ++j) sums[i][j] += x * b[p * n + j];
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) c[i * n + j] += sums[i][j];
  }
}

struct ProductLoop {
  [[gnu::always_inline]] static int run(const float* a, const float* b, float* c, int64_t m,
                                        int64_t k, int64_t n) {
    for (int64_t j = 0; j < n;) {
      const bool wide = j + kColumns <= n;
      for (int64_t i = 0; i < m;) {
        const bool high = i + kRows <= m;
        const float* rows = a + i * k;
        float* out = c + i * n + j;
        if (wide && high) {
          tile<kRows, kColumns>(rows, b + j, out, k, n);
        } else if (wide) {
          tile<1, kColumns>(rows, b + j, out, k, n);
        } else if (high) {
          tile<kRows, 1>(rows, b + j, out, k, n);
        } else {
          tile<1, 1>(rows, b + j, out, k, n);
        }
        i += high ? kRows : 1;
      }
      j += wide ? kColumns : 1;
    }
    return 0;
  }
};

}  // namespace

Dims strides_of(const Dims& dims) {
  Dims out(dims.size(), 1);
  for (size_t i = dims.size(); i > 1; --i) out[i - 2] = out[i - 1] * dims[i - 1];
  return out;
}

void copy_strided(const Value& from, const Walk& read, Value* to, const Walk& write,
                  const Dims& sizes, Copy copy) {
  if (from.has_floats()) {
    copy_all(from.floats, read, &to->floats, write, sizes, copy);
  } else {
    copy_all(from.integers, read, &to->integers, write, sizes, copy);
  }
}

Walk walk_from(const Dims& dims, std::span<const int64_t> at) {
  Walk out{.strides = strides_of(dims)};
  for (size_t i = 0; i < at.size(); ++i) out.start += at[i] * out.strides[i];
  return out;
}

void multiply_add(const float* a, const float* b, float* c, int64_t m, int64_t k, int64_t n) {
  kernels::vector_loop<ProductLoop>(a, b, c, m, k, n);
}

}  // namespace kinema::interpreter
