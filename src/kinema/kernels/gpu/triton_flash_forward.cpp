#include <numbers>

#include "kinema/kernels/gpu/triton_flash_body.h"

namespace kinema::kernels::triton {
namespace {

/// Initial maximum: below every score, and finite, so that a row without keys stays finite.
constexpr double kLowest = -2e38;
/// Less than any sum of weights, whose largest term is 1; keeps a row without keys finite.
constexpr double kNoWeights = 1e-30;

}  // namespace

// Scores in units of ln 2, so that exponentials are powers of two:
//   m' = max(m, max_j s_ij)    p = 2^(s - m')    l' = 2^(m - m') l + sum_j p
//   a' = 2^(m - m') a + p v
FlashKernel flash_forward(const FlashWork& work) {
  const Shape q{work.dtype, {work.batch, work.queries, work.heads, work.width}};
  const Shape k{work.dtype, {work.batch, work.keys, work.heads, work.width}};
  const std::vector<Shape> results{{work.result, q.dims},
                                   {DType::F32, {work.batch, work.heads, work.queries}}};
  const FlashTile& tile = work.tile;
  const double unit = work.scale * std::numbers::log2e;
  return make_kernel(
      work, "flash_forward", work.queries, tile.block_q, {q, k, k}, results,
      [&](Body& b, FlashBody& f, const std::vector<Value>& arrays) {
        const Rows rows = f.own_rows(tile.block_q, work.queries);
        const Value queries = f.load(f.head_of(arrays[0], work.queries), rows);
        const Value k_head = f.head_of(arrays[1], work.keys);
        const Value v_head = f.head_of(arrays[2], work.keys);
        const Type sums = matrix(tile.block_q, work.padded_width());
        const Type line{.element = "f32", .dims = {tile.block_q}};
        const std::vector<Value> end = f.for_blocks(
            f.keys(), tile.block_kv, {b.full(kLowest, line), b.full(0.0, line), b.full(0.0, sums)},
            [&](const Rows& keys, const std::vector<Value>& carried) -> std::vector<Value> {
              const Value scores =
                  f.masked(f.times_transposed(queries, f.load(k_head, keys)), keys, 1);
              const Value m =
                  b.arith("maxnumf", carried[0], b.scaled(b.reduce(Reduce::MAX, scores, 1), unit));
              const Value p = b.math(
                  "exp2", b.arith("subf", b.scaled(scores, unit), b.along(m, 0, scores.type.dims)));
              const Value decay = b.math("exp2", b.arith("subf", carried[0], m));
              const Value l =
                  b.arith("addf", b.arith("mulf", carried[1], decay), b.reduce(Reduce::SUM, p, 1));
              const Value kept = b.arith("mulf", carried[2], b.along(decay, 0, sums.dims));
              const Value v = f.load(v_head, keys);
              return {m, l, b.dot(b.cast(p, v.type.element), v, kept)};
            });
        const Value l = b.arith("maxnumf", end[1], b.full(kNoWeights, line));
        f.store(b.arith("divf", end[2], b.along(l, 0, sums.dims)),
                f.head_of(arrays[3], work.queries), rows);
        f.store_line(b.scaled(b.arith("addf", end[0], b.math("log2", l)), std::numbers::ln2),
                     f.line_of(arrays[4], work.queries), rows);
      });
}

}  // namespace kinema::kernels::triton
