#pragma once

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/strided_dot.h"

namespace kinema::kernels {

/// One product without batch loops on the calling thread, for processors that multiply only F32:
/// operands (F32 or BF16 each) are widened panel by panel into small buffers of the thread, never
/// as a whole. Sums are F32; a BF16 result is rounded once, after all of k and the optional bias of
/// n numbers. c_n must be 1, as must one stride of each operand.
///
/// A product of two BF16 numbers is exact in F32, so this equals the F32 product of the widened
/// operands. Its last bits differ from the AVX512_BF16 instructions, which add the products of two
/// neighbours first and flush subnormal operands to zero.
///
/// Needs isa() >= Isa::Avx2. The summation order depends only on k.
void panel_product(const StridedDot& dot, DType a_type, DType b_type, DType c_type, const char* a,
                   const char* b, char* c, const float* bias = nullptr);

}  // namespace kinema::kernels
