// Attention in blocks, arXiv:2205.14135 (algorithm 1) and arXiv:2307.08691 (algorithms 1 and 2).
#include "kinema/nn/flash_attention.h"

#include <algorithm>

#include "kinema/graph/scan.h"
#include "kinema/nn/linear.h"

namespace kinema::nn {
namespace {

/// The score of a masked key: finite, so that a row without keys has no NaN, and so low that the
/// key's weight is 0 next to any other score.
constexpr double kMasked = -2e38;

DType sums_dtype(Tensor q) { return q.dtype() == DType::F64 ? DType::F64 : DType::F32; }

/// An axis divided into equal blocks, as few as `wanted` allows; the last one is padded.
struct Blocks {
  int64_t length, count, size;

  static Blocks of(int64_t length, int64_t wanted) {
    const int64_t size = std::min(length, wanted);
    const int64_t count = (length + size - 1) / size;
    return {length, count, (length + count - 1) / count};
  }
  int64_t padding() const { return count * size - length; }
};

Tensor padded(Tensor x, Axis axis, int64_t by) { return by == 0 ? x : pad(x, axis, 0, by); }

/// [b, s, n, d] -> [blocks, b, n, block, d]
Tensor cut(Tensor x, const Blocks& blocks) {
  x = padded(x, Axis(1), blocks.padding());
  x = reshape(x, {x.dim(0), blocks.count, blocks.size, x.dim(2), x.dim(3)});
  return transpose(x, {1, 0, 3, 2, 4});
}

/// [blocks, b, n, block, d] -> [b, s, n, d]
Tensor join(Tensor x, const Blocks& blocks) {
  x = transpose(x, {1, 0, 3, 2, 4});
  x = reshape(x, {x.dim(0), blocks.count * blocks.size, x.dim(3), x.dim(4)});
  return blocks.padding() == 0 ? x : slice(x, Axis(1), 0, blocks.length);
}

/// [b, n, s] -> [blocks, b, n, block]
Tensor cut_rows(Tensor x, const Blocks& blocks) {
  x = padded(x, Axis(2), blocks.padding());
  x = reshape(x, {x.dim(0), x.dim(1), blocks.count, blocks.size});
  return transpose(x, {2, 0, 1, 3});
}

/// [blocks, b, n, block] -> [b, n, s]
Tensor join_rows(Tensor x, const Blocks& blocks) {
  x = transpose(x, {1, 2, 0, 3});
  x = reshape(x, {x.dim(0), x.dim(1), blocks.count * blocks.size});
  return blocks.padding() == 0 ? x : slice(x, Axis(2), 0, blocks.length);
}

/// Mask of the keys that are used, pred [blocks, block]; empty if all are.
Tensor mask_of(Graph& graph, const Blocks& blocks, Tensor keys, bool mask_padding) {
  if (!keys && (blocks.padding() == 0 || !mask_padding)) {
    return {};
  }
  const Tensor position = iota(graph, {DType::S32, {blocks.count * blocks.size}}, Axis(0));
  const Tensor counts = keys
                            ? compare(position, Comparison::LT, keys)
                            : compare(position, Comparison::LT, static_cast<double>(blocks.length));
  return reshape(counts, {blocks.count, blocks.size});
}

using Step = std::function<ScanResult(std::span<const Tensor> carry, std::span<const Tensor> xs)>;

/// A scan; unrolled if it has one step.
ScanResult each(std::vector<Tensor> carry, std::vector<Tensor> xs, const Step& step) {
  const int64_t length = xs[0].dim(0);
  if (length > 1) {
    return scan(std::move(carry), std::move(xs), {.length = length}, step);
  }
  for (Tensor& x : xs) {
    x = squeeze(x, Axis(0));
  }
  ScanResult result = step(carry, xs);
  for (Tensor& y : result.ys) {
    y = expand_dims(y, Axis(0));
  }
  return result;
}

/// a [b, n, i, k] times b [b, n, j, k] transposed -> [b, n, i, j]
Tensor times_transposed(Tensor a, Tensor b, Precision precision, DType out) {
  return dot_general(
      a, b, {.lhs_contract = {3}, .rhs_contract = {3}, .lhs_batch = {0, 1}, .rhs_batch = {0, 1}},
      precision, out);
}

/// a [b, n, i, k] times b [b, n, k, j] -> [b, n, i, j]
Tensor times(Tensor a, Tensor b, Precision precision, DType out) {
  return dot_general(
      a, b, {.lhs_contract = {3}, .rhs_contract = {2}, .lhs_batch = {0, 1}, .rhs_batch = {0, 1}},
      precision, out);
}

/// a [b, n, k, i] transposed times b [b, n, k, j] -> [b, n, i, j]
Tensor transposed_times(Tensor a, Tensor b, Precision precision, DType out) {
  return dot_general(
      a, b, {.lhs_contract = {2}, .rhs_contract = {2}, .lhs_batch = {0, 1}, .rhs_batch = {0, 1}},
      precision, out);
}

/// scale q k^T for one block of each, [b, n, i, j]; `mask` [j] or empty.
Tensor scores(Tensor q, Tensor k, Tensor mask, const FlashOptions& options) {
  Tensor s = times_transposed(q, k, options.precision, sums_dtype(q));
  if (options.scale != 1.0) {
    s = s * options.scale;
  }
  return mask ? select(mask, s, constant(s.graph(), kMasked, {s.dtype(), {}})) : s;
}

Tensor column(Tensor rows) { return expand_dims(rows, Axis(-1)); }

/// For each block of queries, over the blocks of keys (m: largest score so far, l: sum of weights,
/// a: weighted sum of values):
///
///   m' = max(m, max_j s_ij)    p = exp(s - m')    l' = e^{m - m'} l + sum_j p
///   a' = e^{m - m'} a + p v    at the end  y = a / l,  lse = m + log l
std::vector<Tensor> forward(std::span<const Tensor> in, DType out, const FlashOptions& options) {
  const Tensor q = in[0];
  const Blocks rows = Blocks::of(q.dim(1), options.blocks.block_q);
  const Blocks columns = Blocks::of(in[1].dim(1), options.blocks.block_kv_compute);
  const Tensor k = cut(in[1], columns);
  const Tensor v = cut(in[2], columns);
  const Tensor mask =
      mask_of(q.graph(), columns, in.size() > 3 ? in[3] : Tensor(), options.mask_padding);
  const DType sums = sums_dtype(q);
  const auto one_block = [&](std::span<const Tensor>, std::span<const Tensor> block) {
    const Tensor qi = block[0];
    const Dims per_row{qi.dim(0), qi.dim(1), qi.dim(2)};
    Dims per_value = per_row;
    per_value.push_back(qi.dim(3));
    Graph& graph = qi.graph();
    std::vector<Tensor> xs{k, v};
    if (mask) {
      xs.push_back(mask);
    }
    const auto step = [&](std::span<const Tensor> carry, std::span<const Tensor> x) -> ScanResult {
      const Tensor s = scores(qi, x[0], x.size() > 2 ? x[2] : Tensor(), options);
      const Tensor m = maximum(carry[0], max(s, {-1}));
      const Tensor p = exp(s - column(m));
      const Tensor decay = exp(carry[0] - m);
      const Tensor weighted = times(as(p, x[1].dtype()), x[1], options.precision, sums);
      return {{m, carry[1] * decay + sum(p, {-1}), carry[2] * column(decay) + weighted}, {}};
    };
    const std::vector<Tensor> last =
        each({constant(graph, kMasked, {sums, per_row}), constant(graph, 0.0, {sums, per_row}),
              constant(graph, 0.0, {sums, per_value})},
             xs, step)
            .carry;
    return ScanResult{{}, {as(last[2] / column(last[1]), out), last[0] + log(last[1])}};
  };
  const std::vector<Tensor> ys = each({}, {cut(q, rows)}, one_block).ys;
  return {join(ys[0], rows), join_rows(ys[1], rows)};
}

/// For each block of keys, over the blocks of queries, recomputing the weights:
///
///   p = exp(s - lse)     dv += p^T dy      ds = p (dy v^T - delta) scale
///   dk += ds^T q         dq_i += ds k
///
/// The carry holds all of dq. Padding rows of the last block add nothing: their dy and delta are 0.
std::vector<Tensor> backward(std::span<const Tensor> in, DType out, const FlashOptions& options) {
  const Tensor q = in[0];
  const Blocks rows = Blocks::of(q.dim(1), options.blocks.block_q_dkv);
  const Blocks columns = Blocks::of(in[1].dim(1), options.blocks.block_kv_dkv_compute);
  const Tensor queries = cut(q, rows);
  const Tensor lse = cut_rows(in[3], rows);
  const Tensor delta = cut_rows(in[4], rows);
  const Tensor dys = cut(in[5], rows);
  const Tensor mask =
      mask_of(q.graph(), columns, in.size() > 7 ? in[7] : Tensor(), options.mask_padding);
  const DType sums = sums_dtype(q);
  const Precision precision = options.precision;
  std::vector<Tensor> blocks{cut(in[1], columns), cut(in[2], columns)};
  if (mask) {
    blocks.push_back(mask);
  }
  const auto one_block = [&](std::span<const Tensor> carry, std::span<const Tensor> block) {
    const Tensor k = block[0];
    const Tensor v = block[1];
    const auto step = [&](std::span<const Tensor> sum, std::span<const Tensor> x) -> ScanResult {
      const Tensor qi = x[0];
      const Tensor dy = x[1];
      const Tensor p =
          exp(scores(qi, k, block.size() > 2 ? block[2] : Tensor(), options) - column(x[2]));
      const Tensor dp = times_transposed(dy, v, precision, sums);
      Tensor ds = p * (dp - column(x[3]));
      if (options.scale != 1.0) {
        ds = ds * options.scale;
      }
      ds = as(ds, q.dtype());
      const Tensor dv = transposed_times(as(p, v.dtype()), dy, precision, sums);
      const Tensor dk = transposed_times(ds, qi, precision, sums);
      return {{sum[0] + dk, sum[1] + dv}, {x[4] + times(ds, k, precision, sums)}};
    };
    const Tensor none = constant(k.graph(), 0.0, {sums, k.shape().dims});
    const ScanResult all = each({none, none}, {queries, dys, lse, delta, carry[0]}, step);
    return ScanResult{{all.ys[0]}, {as(all.carry[0], out), as(all.carry[1], out)}};
  };
  const Tensor none = constant(q.graph(), 0.0, {sums, queries.shape().dims});
  const ScanResult all = each({none}, blocks, one_block);
  return {join(as(all.carry[0], out), rows), join(all.ys[0], columns), join(all.ys[1], columns)};
}

}  // namespace

FlashResult flash_forward(Tensor q, Tensor k, Tensor v, Tensor keys, DType out,
                          const FlashOptions& options) {
  std::vector<Tensor> inputs{q, k, v};
  if (keys) {
    inputs.push_back(keys);
  }
  const std::vector<Tensor> ys =
      fused("flash_attention",
            kernels::FlashAttentionSettings{options.scale, options.blocks, options.base2}, inputs,
            [&](std::span<const Tensor> in) { return forward(in, out, options); });
  return {ys[0], ys[1]};
}

FlashGradients flash_backward(Tensor q, Tensor k, Tensor v, Tensor lse, Tensor delta, Tensor dy,
                              Tensor y, Tensor keys, DType out, const FlashOptions& options) {
  std::vector<Tensor> inputs{q, k, v, lse, delta, dy, y};
  if (keys) {
    inputs.push_back(keys);
  }
  const std::vector<Tensor> grads =
      fused("flash_attention_backward",
            kernels::FlashAttentionBackwardSettings{options.scale, options.blocks, options.base2,
                                                    options.delta_of_y},
            inputs, [&](std::span<const Tensor> in) { return backward(in, out, options); });
  return {grads[0], grads[1], grads[2]};
}

Tensor flash_delta(Tensor y, Tensor dy) {
  const DType sums = sums_dtype(y);
  return transpose(sum(as(y, sums) * as(dy, sums), {3}), {0, 2, 1});
}

}  // namespace kinema::nn
