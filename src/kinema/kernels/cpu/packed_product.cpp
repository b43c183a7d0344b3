#include "kinema/kernels/cpu/packed_product.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "kinema/kernels/cpu/amx_product.h"
#include "kinema/kernels/cpu/isa.h"
#include "kinema/kernels/cpu/matrix_product.h"
#include "kinema/kernels/cpu/onednn.h"
#include "kinema/kernels/cpu/rounding.h"
#include "kinema/kernels/cpu/tile_product.h"

namespace kinema::kernels {
namespace {

using dnnl::memory;

/// A dense row-major matrix.
memory::desc dense(DType dtype, int64_t rows, int64_t columns) {
  return {{rows, columns}, dnnl_type(dtype), memory::dims{columns, 1}};
}

struct Kernel {
  memory::desc a, b, c;
  dnnl::matmul primitive;

  explicit Kernel(const dnnl::matmul::primitive_desc& desc)
      : a(desc.src_desc()), b(desc.weights_desc()), c(desc.dst_desc()), primitive(desc) {}
};

/// A value cached per thread and key.
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

/// The product whose layout of b is used for all products with it.
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

/// Whether to use our own panels: oneDNN's F32 products for AVX2 take b unpacked, and pack it in
/// each call.
bool uses_panels(DType dtype) { return isa() < Isa::Avx512 || product_dtype(dtype) != dtype; }

}  // namespace

void PackedRhs::pack(DType dtype, int64_t rows, int64_t k, int64_t n, const char* b, int64_t b_k,
                     int64_t b_n) {
  dtype_ = dtype;
  rows_ = rows;
  k_ = k;
  n_ = n;
  if (uses_panels(dtype)) {
    pack_in_panels({dtype, b, b_n, b_k});
    return;
  }
  if (is_in_tiles()) {
    pack_tiles(reinterpret_cast<const uint16_t*>(b), k, n, b_k, b_n,
               reinterpret_cast<uint16_t*>(packed_.at_least(static_cast<size_t>(k * n * 2))));
    return;
  }
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
  memory source(packing.from, dnnl_engine(), const_cast<char*>(b));
  memory target(to, dnnl_engine(), packed_.at_least(to.get_size()));
  packing.reorder.execute(stream, source, target);
  stream.wait();
}

bool PackedRhs::is_in_tiles() const { return uses_tiles(dtype_) && fits_tiles(k_, n_); }

void PackedRhs::pack_in_panels(const PanelOperand& b) {
  const int64_t columns = panel_tile().columns;
  const int64_t width = round_up(n_, columns);
  float* to = packed_.floats(k_ * width + kPanelSpare);
  for (int64_t at = 0; at < k_; at += kPanelDepth) {
    pack_panels(b.at(0, at), n_, columns, std::min(kPanelDepth, k_ - at), to + at * width);
  }
}

void PackedRhs::multiply(int64_t m, DType a_dtype, const char* a, float* c) const {
  if (uses_panels(dtype_)) {
    multiply_panels_of(m, {a_dtype, a, k_, 1}, c);
    return;
  }
  if (is_in_tiles()) {
    multiply_tiles(m, k_, n_, reinterpret_cast<const uint16_t*>(a), k_,
                   reinterpret_cast<const uint16_t*>(packed_.data()), c, n_, false);
    return;
  }
  dnnl::stream& stream = dnnl_stream();
  const Kernel& kernel = kernel_for(dtype_, m, rows_, k_, n_);
  kernel.primitive.execute(stream,
                           {{DNNL_ARG_SRC, memory(kernel.a, dnnl_engine(), const_cast<char*>(a))},
                            {DNNL_ARG_WEIGHTS, memory(kernel.b, dnnl_engine(), packed_.data())},
                            {DNNL_ARG_DST, memory(kernel.c, dnnl_engine(), c)}});
  stream.wait();
}

void PackedRhs::multiply_panels_of(int64_t m, const PanelOperand& a, float* c) const {
  const PanelTile tile = panel_tile();
  const int64_t width = round_up(n_, tile.columns);
  thread_local Buffer buffer;
  float* block = buffer.floats(kPanelRows * std::min(k_, kPanelDepth) + kPanelSpare);
  const auto* b = reinterpret_cast<const float*>(packed_.data());
  for (int64_t i = 0; i < m; i += kPanelRows) {
    const int64_t rows = std::min(kPanelRows, m - i);
    for (int64_t at = 0; at < k_; at += kPanelDepth) {
      const int64_t depth = std::min(kPanelDepth, k_ - at);
      pack_panels(a.at(i, at), rows, tile.rows, depth, block);
      multiply_panels(rows, n_, depth, block, b + at * width, c + i * n_, n_, at > 0);
    }
  }
}

}  // namespace kinema::kernels
