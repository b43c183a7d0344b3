#include "kinema/kernels/cpu/onednn.h"

#include <omp.h>

namespace kinema::kernels {

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
  return kEngine;
}

dnnl::stream& dnnl_stream() {
  thread_local dnnl::stream stream(dnnl_engine());
  omp_set_num_threads(1);  // of this thread only
  return stream;
}

dnnl::matmul::primitive_desc matmul_of(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                       const dnnl::memory::desc& c,
                                       const dnnl::memory::desc& bias) {
#if DNNL_VERSION_MAJOR >= 3
  return {dnnl_engine(), a, b, bias, c};
#else
  return {dnnl::matmul::desc(a, b, bias, c), dnnl_engine()};
#endif
}

dnnl::memory::data_type dnnl_type(DType dtype) {
  switch (dtype) {
    case DType::BF16:
      return dnnl::memory::data_type::bf16;
    case DType::S8:
      return dnnl::memory::data_type::s8;
    case DType::S32:
      return dnnl::memory::data_type::s32;
    default:
      return dnnl::memory::data_type::f32;
  }
}

}  // namespace kinema::kernels
