#include "kinema/kernels/tpu/flash_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "kinema/graph/custom_call.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/tpu/base64.h"
#include "kinema/kernels/tpu/flash.h"
#include "kinema/kernels/tpu/tiles.h"

namespace kinema::kernels {
namespace {

/// The call's backend configuration, in the compiler's JSON.
std::string configuration(const FlashKernel& kernel, int64_t vmem) {
  std::string out = fmt::format(
      "{{\"custom_call_config\": {{\"body\": \"{}\", \"serialization_format\": 1, "
      "\"needs_layout_passes\": true, \"cost_estimate\": {{\"flops\": {:.0f}, \"transcendentals\": "
      "{:.0f}, \"bytes_accessed\": {:.0f}, \"remote_bytes_transferred\": 0}}}}",
      base64(kernel.text.text), kernel.flops, kernel.exponentials, kernel.hbm_bytes);
  if (vmem > 0) {
    out += fmt::format(
        ", \"scoped_memory_configs\": [{{\"memory_space\": 1, \"offset\": 0, \"size\": {}}}]",
        vmem);
  }
  return out + "}";
}

Tensor filled(Tensor x, int64_t axis, int64_t size) {
  return x.dim(axis) == size ? x : pad(x, Axis(axis), 0, size - x.dim(axis));
}

Tensor cut(Tensor x, int64_t axis, int64_t size) {
  return x.dim(axis) == size ? x : slice(x, Axis(axis), 0, size);
}

/// [b, length, n, d] -> [b n, padded length, padded width]
Tensor heads_first(Tensor x, int64_t length, int64_t width) {
  x = filled(filled(x, 1, length), 3, width);
  return reshape(transpose(x, {0, 2, 1, 3}), {x.dim(0) * x.dim(2), length, width});
}

/// [b n, padded length, padded width] -> the shape of `like`, [b, length, n, d]
Tensor heads_last(Tensor x, Tensor like) {
  x = reshape(x, {like.dim(0), like.dim(2), x.dim(1), x.dim(2)});
  return transpose(cut(cut(x, 2, like.dim(1)), 3, like.dim(3)), {0, 2, 1, 3});
}

/// [b, n, s] -> [b n, 1, padded length]
Tensor as_rows(Tensor x, int64_t length) {
  return reshape(filled(x, 2, length), {x.dim(0) * x.dim(1), 1, length});
}

FlashLengths lengths_of(Tensor q, Tensor k) {
  return {q.dim(0) * q.dim(2), q.dim(1), k.dim(1), q.dim(3)};
}

FlashBlockSizes sizes_for(const FlashBlockSizes& given, std::string_view chip, Tensor k) {
  return given.asked ? given : best_block_sizes(chip, k.dim(1));
}

}  // namespace

std::vector<Tensor> call_kernel(const FlashKernel& kernel, std::vector<Tensor> operands,
                                int64_t vmem) {
  return custom_call(std::move(operands), kernel.results,
                     {.target = "tpu_custom_call",
                      .config = mlir_quoted(configuration(kernel, vmem)),
                      .more = fmt::format("kernel_name = {}", mlir_quoted(kernel.text.name)),
                      .kernel = kernel.text});
}

Tensor tiles_within_bound(Tensor q, Tensor k, Tensor keys, const FlashWork& work) {
  /// The squared norm of the longest row: [b, length, n, d] -> [b, n]
  const auto longest = [](Tensor x, Tensor rows) {
    Tensor squares = sum(square(convert(x, DType::F32)), {3});
    if (rows) {
      const Tensor row = iota(x.graph(), {DType::S32, squares.shape().dims}, Axis(1));
      squares = select(compare(row, Comparison::LT, rows), squares, zeros_like(squares));
    }
    return max(squares, {1});
  };
  const double largest = kFixedMaximumBound / (work.scale * std::numbers::log2e);
  const Tensor squares = reshape(longest(q, {}) * longest(k, keys),
                                 {work.heads / work.heads_per_tile, work.heads_per_tile});
  Tensor within = compare(max(squares, {1}), Comparison::LE, largest * largest);
  if (keys) {
    within = within & compare(keys, Comparison::GT, 0.0);
  }
  return convert(within, DType::S32);
}

std::vector<Tensor> call_flash_forward(std::span<const Tensor> in, DType y,
                                       const FlashAttentionSettings& settings,
                                       std::string_view chip, std::optional<FlashMaximum> maximum) {
  const Tensor q = in[0];
  const FlashBlockSizes sizes = sizes_for(settings.blocks, chip, in[1]);
  FlashWork work = flash_work(lengths_of(q, in[1]), FlashPass::FORWARD, q.dtype(), y, sizes, chip);
  work.scale = settings.scale;
  work.base2 = settings.base2;
  work.prefetched = in.size() > 3;
  work.maximum = maximum.value_or(work.maximum);
  const Tensor keys = work.prefetched ? in[3] : Tensor();
  std::vector<Tensor> operands;
  if (work.prefetched) {
    operands.push_back(reshape(keys, {1}));
  }
  if (work.maximum == FlashMaximum::EITHER) {
    operands.push_back(tiles_within_bound(q, in[1], keys, work));
  }
  operands.push_back(heads_first(q, work.queries, work.width));
  operands.push_back(heads_first(in[1], work.keys, work.width));
  operands.push_back(heads_first(in[2], work.keys, work.width));
  const std::vector<Tensor> out = call_kernel(flash_forward(work), std::move(operands),
                                              vmem_limit(work, FlashPass::FORWARD, sizes, chip));
  const Tensor lse = reshape(out[1], {q.dim(0), q.dim(2), work.queries});
  return {heads_last(out[0], q), cut(lse, 2, q.dim(1))};
}

std::vector<Tensor> call_flash_backward(std::span<const Tensor> in, DType result,
                                        const FlashAttentionBackwardSettings& settings,
                                        std::string_view chip) {
  const Tensor q = in[0];
  const FlashBlockSizes sizes = sizes_for(settings.blocks, chip, in[1]);
  const bool fused = sizes.use_fused_bwd_kernel;
  const FlashPass first = fused ? FlashPass::BACKWARD_FUSED : FlashPass::BACKWARD_DKV;
  const auto work_of = [&](FlashPass pass) {
    FlashWork work = flash_work(lengths_of(q, in[1]), pass, q.dtype(), result, sizes, chip);
    work.scale = settings.scale;
    work.base2 = settings.base2;
    work.prefetched = in.size() > 7;
    return work;
  };
  const FlashWork work = work_of(first);
  std::vector<Tensor> operands;
  if (work.prefetched) {
    operands.push_back(reshape(in[7], {1}));
  }
  operands.insert(
      operands.end(),
      {heads_first(q, work.queries, work.width), heads_first(in[1], work.keys, work.width),
       heads_first(in[2], work.keys, work.width), heads_first(in[5], work.queries, work.width),
       as_rows(in[3], work.queries), as_rows(in[4], work.queries)});
  const std::vector<Tensor> out =
      call_kernel(flash_backward_dkv(work, fused), operands, vmem_limit(work, first, sizes, chip));
  Tensor dq;
  if (fused) {
    const DType sums = DType::F32;
    dq = convert(sum(convert(out[0], sums), {0}), result);
  } else {
    const FlashWork own = work_of(FlashPass::BACKWARD_DQ);
    dq = call_kernel(flash_backward_dq(own), operands,
                     vmem_limit(own, FlashPass::BACKWARD_DQ, sizes, chip))[0];
  }
  return {heads_last(dq, q), heads_last(out[out.size() - 2], in[1]),
          heads_last(out[out.size() - 1], in[1])};
}

}  // namespace kinema::kernels
