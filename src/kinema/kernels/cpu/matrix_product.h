#pragma once

#include <functional>

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/strided_dot.h"

namespace kinema::kernels {

/// Runs `task(0) .. task(count - 1)`, each once, on the caller and whoever else helps; returns when
/// all are done.
using ParallelFor = std::function<void(int64_t count, const std::function<void(int64_t)>& task)>;

/// c = a b, or a b + bias with a bias of n numbers where c_n is 1, through oneDNN or by tiles of
/// our own (tile_product.h), split into pieces of about equal work. Operands of type `in` (F32 or
/// BF16), result of type `out` (F32, or BF16 for BF16 operands); sums in F32, rounded once; or
/// operands of S8, exact sums of S32. Where the processor has no BF16 products, those are
/// panel_product()'s. Throws an Error when oneDNN refuses.
void matrix_product(const StridedDot& dot, DType in, DType out, const void* a, const void* b,
                    const float* bias, void* c, int64_t threads, const ParallelFor& parallel_for);

/// One product without batch loops on the calling thread alone; c_n must be 1. Throws a dnnl::error
/// when oneDNN refuses.
void multiply_alone(const StridedDot& dot, DType in, DType out, const char* a, const char* b,
                    char* c, const float* bias = nullptr);

/// True for F32 and BF16 where this processor has fast products of F32, for S8 where it has exact
/// ones of those.
bool has_fast_product(DType dtype);

/// What a product of the dtype is computed in: F32 for BF16 where the processor multiplies F32
/// only.
DType product_dtype(DType dtype);

}  // namespace kinema::kernels
