#pragma once

#include <functional>

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/strided_dot.h"

namespace kinema::kernels {

/// Runs `task(0) .. task(count - 1)`, each once, on the caller and helping threads; returns when
/// all are done.
using ParallelFor = std::function<void(int64_t count, const std::function<void(int64_t)>& task)>;

/// c = a b, or a b + bias with a bias of n numbers if c_n is 1, through oneDNN or our own AMX tiles
/// (tile_product.h), split into pieces of about equal work. Operands of type `in` (F32 or BF16),
/// result of type `out` (F32, or BF16 for BF16 operands); sums in F32, rounded once. S8 operands
/// have exact S32 sums. On a processor without BF16 products, panel_product() computes them. Throws
/// an Error when oneDNN refuses.
void matrix_product(const StridedDot& dot, DType in, DType out, const void* a, const void* b,
                    const float* bias, void* c, int64_t threads, const ParallelFor& parallel_for);

/// One product without batch loops on the calling thread; c_n must be 1. Throws a dnnl::error when
/// oneDNN refuses.
void multiply_single_threaded(const StridedDot& dot, DType in, DType out, const char* a,
                              const char* b, char* c, const float* bias = nullptr);

/// For F32 and BF16: whether this processor has fast F32 products; for S8: exact ones.
bool has_fast_product(DType dtype);

/// The dtype in which products of `dtype` are computed: F32 for BF16 on a processor that multiplies
/// only F32.
DType product_dtype(DType dtype);

}  // namespace kinema::kernels
