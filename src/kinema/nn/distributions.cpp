#include "kinema/nn/distributions.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/nn/activation.h"
#include "kinema/nn/linear.h"
#include "kinema/nn/norm.h"

namespace kinema::nn {

Tensor log_softmax(Tensor x) {
  const Tensor wide = widened(x);
  const Tensor shifted = wide - stop_gradient(max(wide, {-1}, true));
  return shifted - log(sum(exp(shifted), {-1}, true));
}

Tensor one_hot(Tensor index, int64_t classes, DType dtype) {
  Shape shape{index.dtype(), index.shape().dims};
  shape.dims.push_back(classes);
  const Tensor positions = iota(index.graph(), shape, Axis(-1));
  return convert(compare(expand_dims(index, Axis(-1)), Comparison::EQ, positions), dtype);
}

Categorical::Categorical(Tensor logits, double unimix) : scores_(widened(logits)) {
  log_probabilities_ = log_softmax(scores_);
  probabilities_ = softmax(scores_);
  if (unimix > 0.0) {
    probabilities_ = probabilities_ * (1.0 - unimix) + unimix / static_cast<double>(classes());
    scores_ = log_probabilities_ = log(probabilities_);
  }
}

Tensor Categorical::straight_through(Tensor index) const {
  const Tensor hot = one_hot(index, classes(), probabilities_.dtype());
  return hot + (probabilities_ - stop_gradient(probabilities_));
}

Tensor Categorical::log_prob(Tensor index) const {
  return sum(one_hot(index, classes(), log_probabilities_.dtype()) * log_probabilities_, {-1});
}

Tensor Categorical::entropy() const { return -sum(probabilities_ * log_probabilities_, {-1}); }

Tensor Categorical::kl(const Categorical& q) const {
  return sum(probabilities_ * (log_probabilities_ - q.log_probabilities_), {-1});
}

Normal Normal::bounded(Tensor x, Tensor y, double least, double most) {
  return {tanh(widened(x)), logistic(widened(y) + 2.0) * (most - least) + least};
}

Tensor Normal::log_prob(Tensor x) const {
  const Tensor z = (as(x, mean_.dtype()) - mean_) / stddev_;
  return -0.5 * square(z) - log(stddev_) - 0.5 * std::log(2.0 * std::numbers::pi);
}

Tensor Normal::entropy() const { return log(stddev_) + entropy_of(1.0); }

double Normal::entropy_of(double stddev) {
  return 0.5 * std::log(2.0 * std::numbers::pi * stddev * stddev) + 0.5;
}

Binary::Binary(Tensor logit) : logit_(widened(logit)) {}

Tensor Binary::loss(Tensor target) const {
  // -log sigmoid(x) = softplus(-x) = softplus(x) - x
  return softplus(logit_) - as(target, logit_.dtype()) * logit_;
}

TwoHot::TwoHot(Tensor logits, Tensor bins)
    : logits_(widened(logits)), bins_(as(bins, logits_.dtype())) {
  check(bins.rank() == 1 && logits.dim(-1) == bins.dim(0), "[twohot] logits {} do not fit bins {}",
        to_string(logits.shape()), to_string(bins.shape()));
}

Tensor TwoHot::mean() const {
  const int64_t count = bins_.dim(0);
  const int64_t half = count / 2;
  const Tensor weighted = softmax(logits_) * bins_;
  const Tensor below = reverse(slice(weighted, Axis(-1), 0, half), Axis(-1));
  const Tensor above = slice(weighted, Axis(-1), count - half, half);
  const Tensor pairs = sum(below + above, {-1});
  return count % 2 == 0 ? pairs : pairs + squeeze(slice(weighted, Axis(-1), half, 1), Axis(-1));
}

Tensor TwoHot::encode(Tensor target, Tensor bins) {
  const int64_t last = bins.dim(0) - 1;
  const Tensor x = expand_dims(as(target, bins.dtype()), Axis(-1));
  const auto count = [&](Comparison how) {
    return sum(convert(compare(bins, how, x), DType::S32), {-1});
  };
  const auto clamped = [&](Tensor index) {
    return minimum(maximum(index, 0.0), static_cast<double>(last));
  };
  const Tensor below = clamped(count(Comparison::LE) - 1.0);
  const Tensor above = clamped(static_cast<double>(last + 1) - count(Comparison::GT));
  const Tensor same = compare(below, Comparison::EQ, above);
  const auto distance = [&](Tensor index) {
    const Tensor d = abs(take(bins, index) - squeeze(x, Axis(-1)));
    return select(same, ones_like(d), d);
  };
  const Tensor to_below = distance(below);
  const Tensor to_above = distance(above);
  const Tensor both = to_below + to_above;
  const auto weights = [&](Tensor index, Tensor weight) {
    return one_hot(index, last + 1, bins.dtype()) * expand_dims(weight / both, Axis(-1));
  };
  return weights(below, to_above) + weights(above, to_below);
}

Tensor TwoHot::loss(Tensor target) const {
  return -sum(encode(target, bins_) * log_softmax(logits_), {-1});
}

Tensor symexp_bins(Graph& graph, int64_t count) {
  check(count >= 2, "[twohot] there are {} bins but at least 2 are needed", count);
  const int64_t half = count / 2;
  const bool is_odd = count % 2 == 1;
  constexpr double kFarthest = 20.0;
  // An odd count reaches 0 with its middle bin, an even one with the last of each half.
  const auto steps = static_cast<double>(is_odd ? half : half - 1);
  std::vector<float> bins(static_cast<size_t>(count), 0.0F);
  for (int64_t i = 0; i < half; ++i) {
    const double x = steps > 0 ? kFarthest * (steps - static_cast<double>(i)) / steps : kFarthest;
    const auto bin = static_cast<float>(std::expm1(x));
    bins[static_cast<size_t>(i)] = -bin;
    bins[static_cast<size_t>(count - 1 - i)] = bin;
  }
  return constant_f32(graph, {count}, bins);
}

}  // namespace kinema::nn
