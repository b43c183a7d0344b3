// Ring attention: arXiv:2310.01889. Exchange of heads for sequence ("Ulysses"): arXiv:2309.14509.
#include "kinema/nn/attention_parts.h"

#include <algorithm>
#include <vector>

#include "kinema/nn/linear.h"

namespace kinema::nn {
namespace {

constexpr int kSequence = 1;
constexpr int kHeads = 2;

Tensor first(Tensor x, int64_t count) {
  return x.dim(kSequence) == count ? x : slice(x, Axis(kSequence), 0, count);
}

/// [b, n, s] -> [b, s, n, 1], as weights of a result.
Tensor as_weights(Tensor rows) { return expand_dims(transpose(rows, {0, 2, 1}), Axis(-1)); }

/// The keys that a device works on at each step: at step h, those of the device h positions before
/// it. The last positions of the whole sequence may be padding.
class Ring {
 public:
  Ring(Tensor k, const PartPlan& plan)
      : plan_(plan), length_(k.dim(kSequence)), steps_(plan.ring.size()) {
    if (plan.flash.mask_padding && plan.keys < length_ * steps_) {
      position_ = position_in(k.graph(), plan.ring);
    }
  }
  int64_t steps() const { return steps_; }
  /// The number of unpadded keys at step h; empty if none is padded.
  Tensor keys(int64_t h) const {
    if (!position_) {
      return {};
    }
    const auto all = static_cast<double>(length_);
    const Tensor from =
        remainder(position_ + static_cast<double>(steps_ - h),
                  constant(position_.graph(), static_cast<double>(steps_), {DType::S32, {}}));
    return minimum(maximum(static_cast<double>(plan_.keys) - from * all, 0.0), all);
  }
  Tensor next(Tensor x) const { return ring_shift(x, plan_.ring, 1); }

 private:
  const PartPlan& plan_;
  int64_t length_;
  int64_t steps_;
  Tensor position_;
};

/// Merges the results for two sets of keys:
///
///   lse = log(e^{lse_a} + e^{lse_b})    y = e^{lse_a - lse} y_a + e^{lse_b - lse} y_b
FlashResult merged(const FlashResult& a, const FlashResult& b) {
  const Tensor largest = maximum(a.lse, b.lse);
  const Tensor lse = largest + log(exp(a.lse - largest) + exp(b.lse - largest));
  return {a.y * as_weights(exp(a.lse - lse)) + b.y * as_weights(exp(b.lse - lse)), lse};
}

FlashResult ring_forward(Tensor q, Tensor k, Tensor v, const PartPlan& plan) {
  const Ring ring(k, plan);
  const DType sums = q.dtype() == DType::F64 ? DType::F64 : DType::F32;
  FlashResult all;
  for (int64_t h = 0; h < ring.steps(); ++h) {
    const FlashResult some = flash_forward(q, k, v, ring.keys(h), sums, plan.flash);
    all = h == 0 ? some : merged(all, some);
    if (h + 1 < ring.steps()) {
      k = ring.next(k);
      v = ring.next(v);
    }
  }
  return {as(all.y, q.dtype()), all.lse};
}

/// The sums of dk and dv move along with their keys, and once more at the end, to their owner.
FlashGradients ring_backward(Tensor q, Tensor k, Tensor v, Tensor lse, Tensor delta, Tensor dy,
                             Tensor y, const PartPlan& plan) {
  const Ring ring(k, plan);
  FlashGradients sum;
  for (int64_t h = 0; h < ring.steps(); ++h) {
    const FlashGradients some =
        flash_backward(q, k, v, lse, delta, dy, y, ring.keys(h), lse.dtype(), plan.flash);
    sum = h == 0 ? some : FlashGradients{sum.dq + some.dq, sum.dk + some.dk, sum.dv + some.dv};
    sum.dk = ring.next(sum.dk);
    sum.dv = ring.next(sum.dv);
    if (h + 1 < ring.steps()) {
      k = ring.next(k);
      v = ring.next(v);
    }
  }
  return sum;
}

/// A range of heads of a tensor that has them on `axis`.
struct HeadRun {
  int64_t start, size;
  Tensor of(Tensor x, int axis) const {
    return size == x.dim(axis) ? x : slice(x, Axis(axis), start, size);
  }
};

/// Ranges of heads that each divide among the exchanging devices; the last has the remainder.
std::vector<HeadRun> head_runs(int64_t heads, const PartPlan& plan) {
  const int64_t shards = plan.exchange.size();
  const int64_t shares = heads / shards;
  const int64_t chunks = std::min(plan.chunks, shares);
  const int64_t size = (shares + chunks - 1) / chunks * shards;
  std::vector<HeadRun> runs;
  for (int64_t start = 0; start < heads; start += size) {
    runs.push_back({start, std::min(size, heads - start)});
  }
  return runs;
}

Tensor join(const std::vector<Tensor>& parts, int axis) {
  return parts.size() == 1 ? parts[0] : concatenate(parts, Axis(axis));
}

/// [b, s, n, d]: the sequence is gathered and heads are sharded, and back.
Tensor to_heads(Tensor x, const PartPlan& plan) {
  return all_to_all(x, plan.exchange, Axis(kHeads), Axis(kSequence));
}
Tensor to_sequence(Tensor x, const PartPlan& plan) {
  return all_to_all(x, plan.exchange, Axis(kSequence), Axis(kHeads));
}
/// Neighbours exchange first, so that the keys gathered across the groups are in order.
Tensor all_keys(Tensor x, const PartPlan& plan) {
  return all_gather(to_heads(x, plan), plan.gather, Axis(kSequence));
}

}  // namespace

FlashResult part_forward(Tensor q, Tensor k, Tensor v, const PartPlan& plan) {
  std::vector<Tensor> ys;
  std::vector<Tensor> lses;
  for (const HeadRun run : head_runs(q.dim(kHeads), plan)) {
    const Tensor some_q = to_heads(run.of(q, kHeads), plan);
    const Tensor some_k = all_keys(run.of(k, kHeads), plan);
    const Tensor some_v = all_keys(run.of(v, kHeads), plan);
    const FlashResult some =
        plan.ring.size() > 1 ? ring_forward(some_q, some_k, some_v, plan)
                             : flash_forward(some_q, first(some_k, plan.keys),
                                             first(some_v, plan.keys), {}, q.dtype(), plan.flash);
    ys.push_back(to_sequence(some.y, plan));
    lses.push_back(all_to_all(some.lse, plan.exchange, Axis(2), Axis(1)));
  }
  return {join(ys, kHeads), join(lses, 1)};
}

FlashGradients part_backward(Tensor q, Tensor k, Tensor v, Tensor lse, Tensor delta, Tensor dy,
                             Tensor y, const PartPlan& plan) {
  std::vector<Tensor> dq;
  std::vector<Tensor> dk;
  std::vector<Tensor> dv;
  const auto back = [&](Tensor gradient, int64_t length) {
    gradient = pad(gradient, Axis(kSequence), 0, length - gradient.dim(kSequence));
    gradient = all_reduce_sum(gradient, plan.copies);
    gradient = reduce_scatter(gradient, plan.gather, Axis(kSequence));
    return to_sequence(as(gradient, q.dtype()), plan);
  };
  for (const HeadRun run : head_runs(q.dim(kHeads), plan)) {
    const auto rows = [&](Tensor x) {
      return all_to_all(run.of(x, 1), plan.exchange, Axis(1), Axis(2));
    };
    const Tensor some_q = to_heads(run.of(q, kHeads), plan);
    const Tensor some_dy = to_heads(run.of(dy, kHeads), plan);
    const Tensor some_y = to_heads(run.of(y, kHeads), plan);
    const Tensor all_k = all_keys(run.of(k, kHeads), plan);
    const Tensor all_v = all_keys(run.of(v, kHeads), plan);
    const FlashGradients some =
        plan.ring.size() > 1
            ? ring_backward(some_q, all_k, all_v, rows(lse), rows(delta), some_dy, some_y, plan)
            : flash_backward(some_q, first(all_k, plan.keys), first(all_v, plan.keys), rows(lse),
                             rows(delta), some_dy, some_y, {}, q.dtype(), plan.flash);
    dq.push_back(to_sequence(as(some.dq, q.dtype()), plan));
    dk.push_back(back(some.dk, all_k.dim(kSequence)));
    dv.push_back(back(some.dv, all_k.dim(kSequence)));
  }
  return {join(dq, kHeads), join(dk, kHeads), join(dv, kHeads)};
}

}  // namespace kinema::nn
