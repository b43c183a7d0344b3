#pragma once

#include "kinema/core/dtype.h"
#include "kinema/kernels/cpu/strided_dot.h"

namespace kinema::kernels {

/// One product without batch loops on the calling thread alone, for processors that multiply F32
/// only: panels of the operands (F32 or BF16 each) are brought to F32 on their way into small
/// buffers of the thread, so that no operand is widened as a whole. Sums are F32; a BF16 result is
/// rounded once, from the sum over all of k and the bias of n numbers, if there is one. c_n must be
/// 1, and in each operand a stride of 1.
///
/// A product of two BF16 numbers is exact in F32, so this is the F32 product of the widened
/// operands. It differs in the last bits from the instructions of AVX512_BF16, which add the
/// products of two neighbours first and take subnormal operands for zero.
///
/// Needs isa() >= Isa::Avx2. Every element is summed in an order that depends on k alone.
void panel_product(const StridedDot& dot, DType a_type, DType b_type, DType c_type, const char* a,
                   const char* b, char* c, const float* bias = nullptr);

}  // namespace kinema::kernels
