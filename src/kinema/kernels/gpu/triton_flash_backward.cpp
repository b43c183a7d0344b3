#include <numbers>

#include "kinema/kernels/gpu/triton_flash_body.h"

namespace kinema::kernels::triton {
namespace {

/// Operands of both kernels, in order.
enum Operand : size_t { Q, K, V, LSE, DELTA, DY, RESULTS };

std::vector<Shape> operands(const FlashWork& work) {
  const Shape q{work.dtype, {work.batch, work.queries, work.heads, work.width}};
  const Shape k{work.dtype, {work.batch, work.keys, work.heads, work.width}};
  const Shape line{DType::F32, {work.batch, work.heads, work.queries}};
  return {q, k, k, line, line, q};
}

/// p = exp(scale s - lse) and ds = p (dp - delta), rounded to the dtype of the products; lse and
/// delta are per query, along `axis`.
struct Weights {
  Value p, ds;
};

Weights weights(Body& b, const FlashWork& work, const Value& scores, const Value& dp,
                const Value& lse, const Value& delta, int64_t axis) {
  const double unit = work.scale * std::numbers::log2e;
  const Value base = b.along(b.scaled(lse, std::numbers::log2e), axis, scores.type.dims);
  const Value p = b.math("exp2", b.arith("subf", b.scaled(scores, unit), base));
  const Value ds = b.arith("mulf", p, b.arith("subf", dp, b.along(delta, axis, scores.type.dims)));
  const std::string element = element_of(work.dtype);
  return {b.cast(p, element), b.cast(ds, element)};
}

}  // namespace

// A program handles a block of keys and loops over the queries; scores are k q^T.
FlashKernel flash_backward_dkv(const FlashWork& work) {
  const FlashTile& tile = work.tile;
  const Shape result{work.result, {work.batch, work.keys, work.heads, work.width}};
  return make_kernel(
      work, "flash_backward_dkv", work.keys, tile.block_kv, operands(work), {result, result},
      [&](Body& b, FlashBody& f, const std::vector<Value>& arrays) {
        const Rows rows = f.own_rows(tile.block_kv, work.keys);
        const Value k = f.load(f.head_of(arrays[K], work.keys), rows);
        const Value v = f.load(f.head_of(arrays[V], work.keys), rows);
        const Value q_head = f.head_of(arrays[Q], work.queries);
        const Value dy_head = f.head_of(arrays[DY], work.queries);
        const Value lse_line = f.line_of(arrays[LSE], work.queries);
        const Value delta_line = f.line_of(arrays[DELTA], work.queries);
        const Value none = b.full(0.0, matrix(tile.block_kv, work.padded_width()));
        // Padding queries have a dy of 0 and add nothing.
        const std::vector<Value> sums = f.for_blocks(
            f.queries(), tile.block_q, {none, none},
            [&](const Rows& queries, const std::vector<Value>& carried) -> std::vector<Value> {
              const Value q = f.load(q_head, queries);
              const Value dy = f.load(dy_head, queries);
              const Weights w =
                  weights(b, work, f.times_transposed(k, q), f.times_transposed(v, dy),
                          f.load_line(lse_line, queries), f.load_line(delta_line, queries), 1);
              return {b.dot(w.ds, q, carried[0]), b.dot(w.p, dy, carried[1])};
            });
        // A masked key has weights too, which must be cleared.
        const auto counting = [&](const Value& x) {
          return work.keys_given ? f.mask_keys(x, rows) : x;
        };
        f.store(counting(b.scaled(sums[0], work.scale)), f.head_of(arrays[RESULTS], work.keys),
                rows);
        f.store(counting(sums[1]), f.head_of(arrays[RESULTS + 1], work.keys), rows);
      });
}

// A program handles a block of queries and loops over the keys; scores are q k^T.
FlashKernel flash_backward_dq(const FlashWork& work) {
  const FlashTile& tile = work.tile;
  const Shape result{work.result, {work.batch, work.queries, work.heads, work.width}};
  return make_kernel(
      work, "flash_backward_dq", work.queries, tile.block_q, operands(work), {result},
      [&](Body& b, FlashBody& f, const std::vector<Value>& arrays) {
        const Rows rows = f.own_rows(tile.block_q, work.queries);
        const Value q = f.load(f.head_of(arrays[Q], work.queries), rows);
        const Value dy = f.load(f.head_of(arrays[DY], work.queries), rows);
        const Value lse = f.load_line(f.line_of(arrays[LSE], work.queries), rows);
        const Value delta = f.load_line(f.line_of(arrays[DELTA], work.queries), rows);
        const Value k_head = f.head_of(arrays[K], work.keys);
        const Value v_head = f.head_of(arrays[V], work.keys);
        const std::vector<Value> sum = f.for_blocks(
            f.keys(), tile.block_kv, {b.full(0.0, matrix(tile.block_q, work.padded_width()))},
            [&](const Rows& keys, const std::vector<Value>& carried) -> std::vector<Value> {
              const Value k = f.load(k_head, keys);
              const Value v = f.load(v_head, keys);
              const Weights w = weights(b, work, f.masked(f.times_transposed(q, k), keys, 1),
                                        f.times_transposed(dy, v), lse, delta, 0);
              return {b.dot(w.ds, k, carried[0])};
            });
        f.store(b.scaled(sum[0], work.scale), f.head_of(arrays[RESULTS], work.queries), rows);
      });
}

FlashKernel flash_kernel(FlashPass pass, const FlashWork& work) {
  switch (pass) {
    case FlashPass::FORWARD:
      return flash_forward(work);
    case FlashPass::BACKWARD_DKV:
      return flash_backward_dkv(work);
    case FlashPass::BACKWARD_DQ:
      return flash_backward_dq(work);
  }
  return {};
}

}  // namespace kinema::kernels::triton
