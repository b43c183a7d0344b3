#pragma once

#include <cstdint>

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/buffer.h"
#include "kinema/kernels/cpu/panels.h"

namespace kinema::kernels {

/// A matrix b, k x n, packed once for several products a b on the calling thread. Its memory is
/// reused for the next matrix. The layout is oneDNN's; F32 panels (panels.h) if the processor has
/// no fast products of the dtype or oneDNN would pack b in each call; with matrix tiles that of
/// amx_product.h.
class PackedRhs {
 public:
  /// b: F32 or BF16 with element strides b_k and b_n, one of which is 1; `rows`: about how many
  /// rows the products will have. Throws a dnnl::error when oneDNN refuses.
  void pack(DType dtype, int64_t rows, int64_t k, int64_t n, const char* b, int64_t b_k,
            int64_t b_n);

  /// c = a b for a dense a of m rows, of b's dtype or of the dtype's product_dtype(); c is F32 and
  /// dense.
  void multiply(int64_t m, DType a_dtype, const char* a, float* c) const;

 private:
  bool is_in_tiles() const;
  void pack_in_panels(const PanelOperand& b);
  void multiply_panels_of(int64_t m, const PanelOperand& a, float* c) const;

  DType dtype_ = DType::F32;
  int64_t rows_ = 0, k_ = 0, n_ = 0;
  Buffer packed_;
};

}  // namespace kinema::kernels
