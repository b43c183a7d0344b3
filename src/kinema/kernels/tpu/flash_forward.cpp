// A step's scores are q k^T: [queries, keys].
#include <fmt/format.h>

#include <numbers>

#include "kinema/kernels/tpu/flash_body.h"

namespace kinema::kernels {
namespace {

using mosaic::Body;
using mosaic::kLanes;
using mosaic::Reduce;
using mosaic::Value;

/// Less than any sum of weights, whose largest term is 1, or at least 2^-50 without a maximum;
/// keeps a row without keys finite.
constexpr double kNoWeights = 1e-30;
/// Parts of a block of keys per loop iteration: takes a third fewer cycles on v6e than one part;
/// eight gain 2 % more but compile twice as long. Masked blocks are few.
constexpr int64_t kAtOnce = 4;

/// The running state of one head in scratch.
struct State {
  Value m;  // largest score so far, [block_q, 128], all lanes equal
  Value l;  // sum of weights, likewise
  Value a;  // weighted sum of values, [block_q, width]
};

void start(mosaic::FlashBody& f, const State& state, bool fixed) {
  Body& b = f.ops();
  b.store(b.full(fixed ? 0.0 : mosaic::kMasked, state.m.type.dims), state.m, {f.zero(), f.zero()});
  b.store(b.full(0.0, state.l.type.dims), state.l, {f.zero(), f.zero()});
  b.store(b.full(0.0, state.a.type.dims), state.a, {f.zero(), f.zero()});
}

Value scores(mosaic::FlashBody& f, const Value& q, const Value& k, const Value& first,
             bool masked) {
  Body& b = f.ops();
  const Value s = b.scaled(b.matmul(q, 1, k, 1), f.score_scale());
  return masked ? f.masked(s, first, 1) : s;
}

/// m' = max(m, max_j s_ij)    p = exp(s - m')    l' = e^{m - m'} l + sum_j p
/// a' = e^{m - m'} a + p v
void add_keys(mosaic::FlashBody& f, const FlashWork& work, const State& state, const Value& s,
              const Value& v) {
  Body& b = f.ops();
  const std::vector<Value> origin{f.zero(), f.zero()};
  const Value m = b.load(state.m, origin, state.m.type.dims);
  const Value l = b.load(state.l, origin, state.l.type.dims);
  const Value a = b.load(state.a, origin, state.a.type.dims);
  const Value largest =
      b.arith("maximumf", m, b.broadcast(b.reduce(Reduce::MAX, s, 1), m.type.dims));
  const Value p =
      f.exponential(b.arith("subf", s, b.repeat(largest, work.block_kv_compute / kLanes, 1)));
  const Value decay = f.exponential(b.arith("subf", m, largest));
  const Value weights = b.broadcast(b.reduce(Reduce::SUM, p, 1), l.type.dims);
  b.store(largest, state.m, origin);
  b.store(b.arith("addf", b.arith("mulf", decay, l), weights), state.l, origin);
  const Value weighted = b.matmul(b.cast(p, v.type.element), 1, v, 0);
  const Value kept = b.arith("mulf", b.repeat(decay, work.width / kLanes, 1), a);
  b.store(b.arith("addf", kept, weighted), state.a, origin);
}

/// p = exp(s), 0 where masked    l' = l + sum_j p    a' = a + p v
void add_keys_as_they_are(mosaic::FlashBody& f, const State& state, const Value& s,
                          const Value& v) {
  Body& b = f.ops();
  const std::vector<Value> origin{f.zero(), f.zero()};
  const Value l = b.load(state.l, origin, state.l.type.dims);
  const Value a = b.load(state.a, origin, state.a.type.dims);
  const Value p = f.exponential(s);
  const Value weights = b.broadcast(b.reduce(Reduce::SUM, p, 1), l.type.dims);
  b.store(b.arith("addf", l, weights), state.l, origin);
  const Value weighted = b.matmul(b.cast(p, v.type.element), 1, v, 0);
  b.store(b.arith("addf", a, weighted), state.a, origin);
}

/// y = a / l,  lse = m + log l
void finish(mosaic::FlashBody& f, const FlashWork& work, const State& state, int64_t head,
            const Value& y, const Value& lse) {
  Body& b = f.ops();
  const std::vector<Value> origin{f.zero(), f.zero()};
  const Value sum = b.load(state.l, origin, state.l.type.dims);
  const Value l = b.arith("maximumf", sum, b.full(kNoWeights, sum.type.dims));
  const Value inverse = b.arith("divf", b.full(1.0, l.type.dims), l);
  const Value a = b.load(state.a, origin, state.a.type.dims);
  f.write(b.arith("mulf", a, b.repeat(inverse, work.width / kLanes, 1)), y, head);
  const Value m = b.load(state.m, origin, state.m.type.dims);
  const Value natural = b.scaled(m, work.base2 ? std::numbers::ln2 : 1.0);
  // All lanes are equal: take one of them, as a row.
  const Value rows = b.transpose(b.arith("addf", natural, b.math("log", l)));
  f.write(b.first_row(rows), lse, head);
}

/// Emits code in the work's form of the maximum, or in both forms, one of which each tile of heads
/// runs.
class Forms {
 public:
  Forms(Body& body, const FlashWork& work, const mosaic::Arguments& given)
      : b_(body), maximum_(work.maximum) {
    if (maximum_ == FlashMaximum::EITHER) {
      const Value said = b_.load_scalar(given.prefetched.back(), b_.as_index(given.step[0]));
      fixed_ = b_.compare(mosaic::Compare::NE, said, b_.i32(0));
    }
  }

  void operator()(const std::function<void(bool fixed)>& write) const {
    if (maximum_ == FlashMaximum::EITHER) {
      b_.when(
          fixed_, [&] { write(true); }, [&] { write(false); });
    } else {
      write(maximum_ == FlashMaximum::FIXED);
    }
  }

 private:
  Body& b_;
  FlashMaximum maximum_;
  Value fixed_;
};

}  // namespace

FlashKernel flash_forward(const FlashWork& work) {
  const int64_t blocks = work.keys / work.block_kv;
  mosaic::Function function{
      .name =
          fmt::format("flash_forward_{}{}", work.maximum == FlashMaximum::RUNNING ? "" : "fixed_",
                      work.block_kv_compute),
      .grid = {work.heads / work.heads_per_tile, work.queries / work.block_q, blocks},
      .parallel = {true, false, false},
      .windows = {mosaic::query_window(work, 1, work.dtype),
                  mosaic::key_window(work, 2, work.dtype), mosaic::key_window(work, 2, work.dtype),
                  mosaic::query_window(work, 1, work.result), mosaic::row_window(work, 1)}};
  const auto prefetch = [&](int64_t count) {
    function.prefetched.push_back(
        {.kind = mosaic::Type::Kind::SMEM, .element = "i32", .dims = {count}});
  };
  if (work.prefetched) {
    prefetch(1);
  }
  if (work.maximum == FlashMaximum::EITHER) {
    prefetch(function.grid[0]);
  }
  for (int64_t head = 0; head < work.heads_per_tile; ++head) {
    const mosaic::Type column = mosaic::vmem({work.block_q, kLanes}, DType::F32);
    function.scratch.insert(function.scratch.end(),
                            {column, column, mosaic::vmem({work.block_q, work.width}, DType::F32)});
  }
  FlashKernel out =
      mosaic::make_kernel(work, function, 3, [&](Body& b, const mosaic::Arguments& given) {
        mosaic::FlashBody f(work, b, given);
        const auto each_head = [&](const std::function<void(int64_t, const State&)>& one) {
          for (int64_t head = 0; head < work.heads_per_tile; ++head) {
            const auto at = static_cast<size_t>(3 * head);
            one(head, {given.scratch[at], given.scratch[at + 1], given.scratch[at + 2]});
          }
        };
        const Forms in_form(b, work, given);
        const Value& block = given.step[2];
        b.when(b.compare(mosaic::Compare::EQ, block, b.i32(0)), [&] {
          in_form([&](bool fixed) {
            each_head([&](int64_t, const State& state) { start(f, state, fixed); });
          });
        });
        f.for_keys(block, [&](bool masked) {
          in_form([&](bool fixed) {
            f.for_parts(masked ? 1 : kAtOnce, [&](const Value& first) {
              const Value from = b.as_index(first);
              each_head([&](int64_t head, const State& state) {
                const Value q = f.rows(given.windows[0], head, work.block_q, f.zero());
                const Value k = f.rows(given.windows[1], head, work.block_kv_compute, from);
                const Value v = f.rows(given.windows[2], head, work.block_kv_compute, from);
                const Value s = scores(f, q, k, first, masked);
                fixed ? add_keys_as_they_are(f, state, s, v) : add_keys(f, work, state, s, v);
              });
            });
          });
        });
        b.when(b.compare(mosaic::Compare::EQ, block, b.i32(blocks - 1)), [&] {
          each_head([&](int64_t head, const State& state) {
            finish(f, work, state, head, given.windows[3], given.windows[4]);
          });
        });
      });
  out.flops = 4 * out.exponentials * static_cast<double>(work.width);
  return out;
}

}  // namespace kinema::kernels
