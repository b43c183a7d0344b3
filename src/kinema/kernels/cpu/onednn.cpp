#include "kinema/kernels/cpu/onednn.h"

#include <omp.h>

#include <map>
#include <tuple>

namespace kinema::kernels {

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
  return kEngine;
}

dnnl::stream& dnnl_stream() {
  thread_local dnnl::stream stream(dnnl_engine());
  omp_set_num_threads(1);  // for this thread only
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

void dnnl_copy(DType dtype, const std::array<int64_t, 3>& sizes, const char* from,
               const std::array<int64_t, 3>& from_strides, char* to,
               const std::array<int64_t, 3>& to_strides) {
  using Axes = std::array<int64_t, 3>;
  using Key = std::tuple<DType, Axes, Axes, Axes>;
  struct Kernel {
    dnnl::memory::desc from, to;
    dnnl::reorder reorder;
  };
  thread_local std::map<Key, Kernel> kernels;
  if (kernels.size() > 512) {
    kernels.clear();
  }
  const Key key{dtype, sizes, from_strides, to_strides};
  auto found = kernels.find(key);
  if (found == kernels.end()) {
    const auto dims = [](const Axes& axes) { return dnnl::memory::dims(axes.begin(), axes.end()); };
    const dnnl::memory::desc a(dims(sizes), dnnl_type(dtype), dims(from_strides));
    const dnnl::memory::desc b(dims(sizes), dnnl_type(dtype), dims(to_strides));
    found = kernels.emplace(key, Kernel{a, b, dnnl::reorder({dnnl_engine(), a, dnnl_engine(), b})})
                .first;
  }
  dnnl::memory source(found->second.from, dnnl_engine(), const_cast<char*>(from));
  dnnl::memory target(found->second.to, dnnl_engine(), to);
  dnnl::stream& stream = dnnl_stream();
  found->second.reorder.execute(stream, source, target);
  stream.wait();
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
