#include "kinema/kernels/cpu/packed_product.h"

#include <map>
#include <tuple>

#include "kinema/kernels/cpu/onednn.h"

namespace kinema::kernels {
namespace {

using dnnl::memory;

/// A matrix by rows, each dense.
memory::desc dense(DType dtype, int64_t rows, int64_t columns) {
  return {{rows, columns}, dnnl_type(dtype), memory::dims{columns, 1}};
}

struct Kernel {
  memory::desc a, b, c;
  dnnl::matmul primitive;

  explicit Kernel(const dnnl::matmul::primitive_desc& desc)
      : a(desc.src_desc()), b(desc.weights_desc()), c(desc.dst_desc()), primitive(desc) {}
};

/// What is made once per thread and shape.
template <typename Key, typename Value, typename Make>
const Value& kept(std::map<Key, Value>& all, const Key& key, const Make& make) {
  constexpr size_t kMost = 256;
  if (const auto found = all.find(key); found != all.end()) {
    return found->second;
  }
  if (all.size() >= kMost) {
    all.clear();
  }
  return all.emplace(key, make()).first->second;
}

/// The product whose layout of b all products with it share.
const Kernel& leading(DType dtype, int64_t rows, int64_t k, int64_t n) {
  using Key = std::tuple<DType, int64_t, int64_t, int64_t>;
  thread_local std::map<Key, Kernel> kernels;
  return kept(kernels, Key{dtype, rows, k, n}, [&] {
    const memory::desc any({k, n}, dnnl_type(dtype), memory::format_tag::any);
    return Kernel(matmul_of(dense(dtype, rows, k), any, dense(DType::F32, rows, n)));
  });
}

const Kernel& kernel_for(DType dtype, int64_t m, int64_t rows, int64_t k, int64_t n) {
  if (m == rows) {
    return leading(dtype, rows, k, n);
  }
  using Key = std::tuple<DType, int64_t, int64_t, int64_t, int64_t>;
  thread_local std::map<Key, Kernel> kernels;
  return kept(kernels, Key{dtype, m, rows, k, n}, [&] {
    return Kernel(
        matmul_of(dense(dtype, m, k), leading(dtype, rows, k, n).b, dense(DType::F32, m, n)));
  });
}

}  // namespace

void PackedRight::pack(DType dtype, int64_t rows, int64_t k, int64_t n, const char* b, int64_t b_k,
                       int64_t b_n) {
  struct Packing {
    memory::desc from;
    dnnl::reorder reorder;
  };
  using Key = std::tuple<DType, int64_t, int64_t, int64_t, int64_t, int64_t>;
  thread_local std::map<Key, Packing> packings;
  dnnl::stream& stream = dnnl_stream();
  const memory::desc& to = leading(dtype, rows, k, n).b;
  const Packing& packing = kept(packings, Key{dtype, rows, k, n, b_k, b_n}, [&] {
    const memory::desc from({k, n}, dnnl_type(dtype), memory::dims{b_k, b_n});
    return Packing{from, dnnl::reorder({dnnl_engine(), from, dnnl_engine(), to})};
  });
  dtype_ = dtype;
  rows_ = rows;
  k_ = k;
  n_ = n;
  memory source(packing.from, dnnl_engine(), const_cast<char*>(b));
  memory target(to, dnnl_engine(), packed_.at_least(to.get_size()));
  packing.reorder.execute(stream, source, target);
  stream.wait();
}

void PackedRight::multiply(int64_t m, const char* a, float* c) const {
  dnnl::stream& stream = dnnl_stream();
  const Kernel& kernel = kernel_for(dtype_, m, rows_, k_, n_);
  kernel.primitive.execute(stream,
                           {{DNNL_ARG_SRC, memory(kernel.a, dnnl_engine(), const_cast<char*>(a))},
                            {DNNL_ARG_WEIGHTS, memory(kernel.b, dnnl_engine(), packed_.data())},
                            {DNNL_ARG_DST, memory(kernel.c, dnnl_engine(), c)}});
  stream.wait();
}

}  // namespace kinema::kernels
