#include "kinema/kernels/tpu/flash_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>
#include <numeric>

#include "kinema/core/error.h"

namespace kinema::kernels::mosaic {

void FlashBody::for_keys(const Value& block, const std::function<void(bool masked)>& work) {
  block_start_ = b_.multiply(block, b_.i32(work_.block_kv));
  if (!work_.prefetched && work_.counted == work_.keys) {
    work(false);
    return;
  }
  counted_ =
      work_.prefetched ? b_.load_scalar(arguments_.prefetched[0], zero_) : b_.i32(work_.counted);
  const Value end = b_.add(block_start_, b_.i32(work_.block_kv));
  b_.when(b_.compare(Compare::LE, end, counted_), [&] { work(false); });
  const Value some = b_.both(b_.compare(Compare::LT, block_start_, counted_),
                             b_.compare(Compare::GT, end, counted_));
  b_.when(some, [&] { work(true); });
}

void FlashBody::for_parts(int64_t at_once, const std::function<void(const Value& first)>& part) {
  const int64_t parts = work_.block_kv / work_.block_kv_compute;
  const int64_t together = std::gcd(parts, at_once);
  const auto group = [&](const Value& start) {
    for (int64_t i = 0; i < together; ++i) {
      part(b_.add(start, b_.i32(i * work_.block_kv_compute)));
    }
  };
  if (parts == together) {
    group(b_.i32(0));
    return;
  }
  b_.loop(parts / together, [&](const Value& i) {
    group(b_.multiply(i, b_.i32(together * work_.block_kv_compute)));
  });
}

Value FlashBody::rows(const Value& window, int64_t head, int64_t count, const Value& first) {
  const int64_t width = window.type.dims.back();
  const Value block = b_.load(window, {b_.index(head), first, zero_}, {1, count, width});
  return b_.reshape(block, {count, width});
}

Value FlashBody::row(const Value& window, int64_t head) {
  const int64_t count = window.type.dims.back();
  return b_.reshape(b_.load(window, {b_.index(head), zero_, zero_}, {1, 1, count}), {1, count});
}

Value FlashBody::exponential(const Value& x) { return b_.math(work_.base2 ? "exp2" : "exp", x); }

double FlashBody::score_scale() const {
  return work_.base2 ? work_.scale * std::numbers::log2e : work_.scale;
}

Value FlashBody::masked(const Value& scores, const Value& first, int64_t axis) {
  const Value before = b_.subtract(counted_, b_.add(block_start_, first));
  const Value counts = b_.compare(Compare::LT, b_.iota(scores.type.dims, axis),
                                  b_.broadcast(before, scores.type.dims));
  return b_.select(counts, scores, b_.full(kMasked, scores.type.dims));
}

void FlashBody::write(const Value& matrix, const Value& window, int64_t head) {
  std::vector<int64_t> dims = window.type.dims;
  std::fill(dims.begin(), dims.end() - 2, 1);
  std::vector<Value> at(dims.size(), zero_);
  at[dims.size() - 3] = b_.index(head);
  b_.store(b_.reshape(b_.cast(matrix, window.type.element), dims), window, at);
}

std::string element_of(DType dtype) { return std::string(mlir_name(dtype)); }

Type vmem(std::vector<int64_t> dims, DType dtype) {
  return {.kind = Type::Kind::VMEM, .element = element_of(dtype), .dims = std::move(dims)};
}

Window query_window(const FlashWork& work, int64_t q, DType dtype) {
  return {vmem({work.heads_per_tile, work.block_q, work.width}, dtype), {0, q, -1}};
}

Window key_window(const FlashWork& work, int64_t kv, DType dtype) {
  return {vmem({work.heads_per_tile, work.block_kv, work.width}, dtype), {0, kv, -1}};
}

Window row_window(const FlashWork& work, int64_t q) {
  return {vmem({work.heads_per_tile, 1, work.block_q}, DType::F32), {0, -1, q}};
}

namespace {

DType dtype_of(const std::string& element) { return element == "bf16" ? DType::BF16 : DType::F32; }

/// The shape of the array that a window divides into blocks.
Shape array_of(const Window& window, const std::vector<int64_t>& grid) {
  Shape shape{dtype_of(window.block.element), {}};
  for (size_t i = 0; i < window.at.size(); ++i) {
    const int64_t blocks = window.at[i] < 0 ? 1 : grid[static_cast<size_t>(window.at[i])];
    shape.dims.push_back(window.block.dims[i] * blocks);
  }
  return shape;
}

/// Bytes between HBM and the chip: a block is copied whenever it differs from that of the step
/// before.
double moved(const Window& window, const std::vector<int64_t>& grid) {
  double blocks = 1;
  bool inner_moves = false;
  for (auto axis = static_cast<int64_t>(grid.size()) - 1; axis >= 0; --axis) {
    inner_moves = inner_moves || std::ranges::find(window.at, axis) != window.at.end();
    blocks *= inner_moves ? static_cast<double>(grid[static_cast<size_t>(axis)]) : 1.0;
  }
  return blocks *
         static_cast<double>(Shape{dtype_of(window.block.element), window.block.dims}.bytes());
}

}  // namespace

FlashKernel make_kernel(const FlashWork& work, const Function& function, size_t operands,
                        const std::function<void(Body&, const Arguments&)>& write) {
  check(work.queries % work.block_q == 0 && work.keys % work.block_kv == 0 &&
            work.block_kv % work.block_kv_compute == 0 && work.block_kv_compute % kLanes == 0 &&
            work.block_q % kLanes == 0 && work.width % kLanes == 0 &&
            work.heads % work.heads_per_tile == 0,
        "[kernels] {}: {} queries in blocks of {}, {} keys in blocks of {} and {}, width {}, {} of "
        "{} heads; expected blocks that divide lengths, and multiples of {}",
        function.name, work.queries, work.block_q, work.keys, work.block_kv, work.block_kv_compute,
        work.width, work.heads_per_tile, work.heads, kLanes);
  FlashKernel out;
  out.text = {.language = KernelText::Language::MOSAIC,
              .name = function.name,
              .text = module_text(function, write)};
  for (const Type& each : function.prefetched) {
    out.operands.push_back({DType::S32, each.dims});
  }
  for (size_t i = 0; i < function.windows.size(); ++i) {
    (i < operands ? out.operands : out.results)
        .push_back(array_of(function.windows[i], function.grid));
    out.hbm_bytes += moved(function.windows[i], function.grid);
  }
  out.exponentials = static_cast<double>(work.heads) * static_cast<double>(work.queries) *
                     static_cast<double>(work.keys);
  return out;
}

}  // namespace kinema::kernels::mosaic
