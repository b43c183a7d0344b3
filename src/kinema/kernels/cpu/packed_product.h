#pragma once

#include <cstdint>

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/buffer.h"

namespace kinema::kernels {

/// A matrix b, k x n, brought once into the layout that oneDNN multiplies by fastest, for several
/// products a b on the calling thread alone. Its memory is kept for the next matrix.
class PackedRight {
 public:
  /// Elements of b lie b_k and b_n apart, one of which is 1; products will have about `rows` rows.
  /// `dtype` is F32 or BF16, and its own product_dtype. Throws a dnnl::error when oneDNN refuses.
  void pack(DType dtype, int64_t rows, int64_t k, int64_t n, const char* b, int64_t b_k,
            int64_t b_n);

  /// c = a b for a of m rows, dense, of the dtype; c is F32 and dense.
  void multiply(int64_t m, const char* a, float* c) const;

 private:
  DType dtype_ = DType::F32;
  int64_t rows_ = 0, k_ = 0, n_ = 0;
  Buffer packed_;
};

}  // namespace kinema::kernels
