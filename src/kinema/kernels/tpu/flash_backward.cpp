// A step's scores are k q^T, [keys, queries], so that lse and delta, one number per query, are
// rows.
#include <fmt/format.h>

#include <numbers>

#include "kinema/kernels/tpu/flash_body.h"

namespace kinema::kernels {
namespace {

using mosaic::Body;
using mosaic::Value;

/// Parts of a block of keys per loop iteration, see flash_forward.cpp; more than two gain 2 %.
constexpr int64_t kAtOnce = 2;

/// p = exp(scale k q^T - lse) and ds = p (v dy^T - delta) scale for some keys and a block of
/// queries, in the operands' dtype.
struct Weights {
  Value p, ds;
};

Weights weights(mosaic::FlashBody& f, const FlashWork& work, const Value& q, const Value& k,
                const Value& v, const Value& dy, const Value& lse, const Value& delta,
                const Value& first, bool masked) {
  Body& b = f.ops();
  Value s = b.scaled(b.matmul(k, 1, q, 1), f.score_scale());
  if (masked) {
    s = f.masked(s, first, 0);
  }
  const Value base = b.scaled(lse, work.base2 ? std::numbers::log2e : 1.0);
  const Value p = f.exponential(b.arith("subf", s, b.broadcast(base, s.type.dims)));
  const Value dp = b.matmul(v, 1, dy, 1);
  const Value difference = b.arith("subf", dp, b.broadcast(delta, dp.type.dims));
  const Value ds = b.scaled(b.arith("mulf", difference, p), work.scale);
  return {b.cast(p, q.type.element), b.cast(ds, q.type.element)};
}

void add_to(Body& b, const Value& reference, const std::vector<Value>& at, const Value& x) {
  b.store(b.arith("addf", b.load(reference, at, x.type.dims), x), reference, at);
}

std::vector<mosaic::Window> operand_windows(const FlashWork& work, int64_t q, int64_t kv) {
  const mosaic::Window queries = mosaic::query_window(work, q, work.dtype);
  const mosaic::Window keys = mosaic::key_window(work, kv, work.dtype);
  const mosaic::Window row = mosaic::row_window(work, q);
  return {queries, keys, keys, queries, row, row};
}

/// The weights of one head and some keys.
Weights weights_of(mosaic::FlashBody& f, const FlashWork& work, const mosaic::Arguments& given,
                   int64_t head, const Value& k, const Value& q, const Value& dy, const Value& from,
                   const Value& first, bool masked) {
  const Value v = f.rows(given.windows[2], head, work.block_kv_compute, from);
  return weights(f, work, q, k, v, dy, f.row(given.windows[4], head), f.row(given.windows[5], head),
                 first, masked);
}

void add_prefetched(const FlashWork& work, mosaic::Function& function) {
  if (work.prefetched) {
    function.prefetched = {{.kind = mosaic::Type::Kind::SMEM, .element = "i32", .dims = {1}}};
  }
}

}  // namespace

namespace {

constexpr int64_t kDkvQueries = 2;  // axes of the grid
constexpr int64_t kDkvKeys = 1;

/// Grid, windows and scratch of the kernel for dk and dv; if `fused`, for dq too.
mosaic::Function dkv_function(const FlashWork& work, bool fused) {
  const int64_t blocks = work.queries / work.block_q;
  mosaic::Function function{
      .name = fmt::format("{}_{}", fused ? "flash_backward" : "flash_backward_dkv",
                          work.block_kv_compute),
      .grid = {work.heads / work.heads_per_tile, work.keys / work.block_kv, blocks},
      .parallel = {true, false, false},
      .windows = operand_windows(work, kDkvQueries, kDkvKeys)};
  add_prefetched(work, function);
  if (fused) {
    function.windows.push_back(
        {mosaic::vmem({1, work.heads_per_tile, work.block_q, work.width}, work.result),
         {kDkvKeys, 0, kDkvQueries, -1}});
  }
  const mosaic::Window result = mosaic::key_window(work, kDkvKeys, work.result);
  function.windows.insert(function.windows.end(), {result, result});
  for (int64_t head = 0; head < work.heads_per_tile; ++head) {
    const mosaic::Type sum = mosaic::vmem({work.block_kv, work.width}, DType::F32);
    function.scratch.insert(function.scratch.end(), {sum, sum});
    if (fused) {
      function.scratch.push_back(mosaic::vmem({work.block_q, work.width}, DType::F32));
    }
  }
  return function;
}

}  // namespace

FlashKernel flash_backward_dkv(const FlashWork& work, bool fused) {
  const int64_t blocks = work.queries / work.block_q;
  const int64_t each = fused ? 3 : 2;  // scratch buffers
  const mosaic::Function function = dkv_function(work, fused);
  FlashKernel out =
      mosaic::make_kernel(work, function, 6, [&](Body& b, const mosaic::Arguments& given) {
        mosaic::FlashBody f(work, b, given);
        const std::vector<Value> origin{f.zero(), f.zero()};
        const auto scratch = [&](int64_t head, int64_t i) -> const Value& {
          return given.scratch[static_cast<size_t>(each * head + i)];
        };
        const auto zero = [&](const Value& reference) {
          b.store(b.full(0.0, reference.type.dims), reference, origin);
        };
        const auto each_head = [&](const std::function<void(int64_t)>& one) {
          for (int64_t head = 0; head < work.heads_per_tile; ++head) {
            one(head);
          }
        };
        const Value& block = given.step[kDkvQueries];
        b.when(b.compare(mosaic::Compare::EQ, block, b.i32(0)), [&] {
          each_head([&](int64_t head) {
            zero(scratch(head, 0));
            zero(scratch(head, 1));
          });
        });
        if (fused) {
          each_head([&](int64_t head) { zero(scratch(head, 2)); });
        }
        f.for_keys(given.step[kDkvKeys], [&](bool masked) {
          f.for_parts(masked ? 1 : kAtOnce, [&](const Value& first) {
            const Value from = b.as_index(first);
            each_head([&](int64_t head) {
              const Value q = f.rows(given.windows[0], head, work.block_q, f.zero());
              const Value dy = f.rows(given.windows[3], head, work.block_q, f.zero());
              const Value k = f.rows(given.windows[1], head, work.block_kv_compute, from);
              const Weights w = weights_of(f, work, given, head, k, q, dy, from, first, masked);
              add_to(b, scratch(head, 1), {from, f.zero()}, b.matmul(w.p, 1, dy, 0));
              add_to(b, scratch(head, 0), {from, f.zero()}, b.matmul(w.ds, 1, q, 0));
              if (fused) {
                add_to(b, scratch(head, 2), origin, b.matmul(w.ds, 0, k, 0));
              }
            });
          });
        });
        const auto whole = [&](const Value& reference) {
          return b.load(reference, origin, reference.type.dims);
        };
        if (fused) {
          each_head(
              [&](int64_t head) { f.write(whole(scratch(head, 2)), given.windows[6], head); });
        }
        const size_t dk = fused ? 7 : 6;
        b.when(b.compare(mosaic::Compare::EQ, block, b.i32(blocks - 1)), [&] {
          each_head([&](int64_t head) {
            f.write(whole(scratch(head, 0)), given.windows[dk], head);
            f.write(whole(scratch(head, 1)), given.windows[dk + 1], head);
          });
        });
      });
  out.flops = (fused ? 10 : 8) * out.exponentials * static_cast<double>(work.width);
  return out;
}

FlashKernel flash_backward_dq(const FlashWork& work) {
  constexpr int64_t kQueries = 1;
  constexpr int64_t kKeys = 2;
  const int64_t blocks = work.keys / work.block_kv;
  mosaic::Function function{
      .name = fmt::format("flash_backward_dq_{}", work.block_kv_compute),
      .grid = {work.heads / work.heads_per_tile, work.queries / work.block_q, blocks},
      .parallel = {true, false, false},
      .windows = operand_windows(work, kQueries, kKeys)};
  add_prefetched(work, function);
  function.windows.push_back(mosaic::query_window(work, kQueries, work.result));
  // dq is transposed, so that the product needs no transposed operand.
  function.scratch.assign(static_cast<size_t>(work.heads_per_tile),
                          mosaic::vmem({work.width, work.block_q}, DType::F32));
  FlashKernel out =
      mosaic::make_kernel(work, function, 6, [&](Body& b, const mosaic::Arguments& given) {
        mosaic::FlashBody f(work, b, given);
        const std::vector<Value> origin{f.zero(), f.zero()};
        const Value& block = given.step[kKeys];
        b.when(b.compare(mosaic::Compare::EQ, block, b.i32(0)), [&] {
          for (const Value& sum : given.scratch) {
            b.store(b.full(0.0, sum.type.dims), sum, origin);
          }
        });
        f.for_keys(block, [&](bool masked) {
          f.for_parts(masked ? 1 : kAtOnce, [&](const Value& first) {
            const Value from = b.as_index(first);
            for (int64_t head = 0; head < work.heads_per_tile; ++head) {
              const Value q = f.rows(given.windows[0], head, work.block_q, f.zero());
              const Value dy = f.rows(given.windows[3], head, work.block_q, f.zero());
              const Value k = f.rows(given.windows[1], head, work.block_kv_compute, from);
              const Weights w = weights_of(f, work, given, head, k, q, dy, from, first, masked);
              add_to(b, given.scratch[static_cast<size_t>(head)], origin, b.matmul(k, 0, w.ds, 0));
            }
          });
        });
        b.when(b.compare(mosaic::Compare::EQ, block, b.i32(blocks - 1)), [&] {
          for (int64_t head = 0; head < work.heads_per_tile; ++head) {
            const Value& sum = given.scratch[static_cast<size_t>(head)];
            f.write(b.transpose(b.load(sum, origin, sum.type.dims)), given.windows[6], head);
          }
        });
      });
  out.flops = 6 * out.exponentials * static_cast<double>(work.width);
  return out;
}

}  // namespace kinema::kernels
