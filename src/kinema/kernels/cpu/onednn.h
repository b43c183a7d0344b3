#pragma once

#include <array>
#include <cstdint>

#include <oneapi/dnnl/dnnl.hpp>

#include "kinema/core/dtype.h"

namespace kinema::kernels {

/// The oneDNN engine of the CPU; created once.
const dnnl::engine& dnnl_engine();

/// The calling thread's stream. After the first call oneDNN runs on this thread alone when called
/// from it: the work is split by our own code.
dnnl::stream& dnnl_stream();

/// The product c = a b of matrices, or a b + bias, in the API of the oneDNN version that this is
/// built with.
dnnl::matmul::primitive_desc matmul_of(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                       const dnnl::memory::desc& c,
                                       const dnnl::memory::desc& bias = {});

/// Copies an array of three axes between two strided layouts, with a kernel cached per thread.
void dnnl_copy(DType dtype, const std::array<int64_t, 3>& sizes, const char* from,
               const std::array<int64_t, 3>& from_strides, char* to,
               const std::array<int64_t, 3>& to_strides);

/// F32, BF16, S8 or S32.
dnnl::memory::data_type dnnl_type(DType dtype);

}  // namespace kinema::kernels
