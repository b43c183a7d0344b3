#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "kinema/core/dtype.h"

namespace kinema::kernels {

/// oneDNN's processor; made once.
const dnnl::engine& dnnl_engine();

/// The calling thread's stream. From here on oneDNN works on this thread alone when called from it:
/// how work is split is ours.
dnnl::stream& dnnl_stream();

/// F32, BF16, S8 or S32.
dnnl::memory::data_type dnnl_type(DType dtype);

}  // namespace kinema::kernels
