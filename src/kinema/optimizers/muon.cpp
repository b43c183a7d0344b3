#include "kinema/optimizers/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kinema::optimizers {
namespace {

// Of the post that introduced it.
constexpr double kA = 3.4445;
constexpr double kB = -4.7750;
constexpr double kC = 2.0315;
constexpr double kSmallestNorm = 1e-7;

bool is_matrix(const nn::ParamSpec& spec) { return layer_rank(spec) >= 2; }

/// [layers, m, n] of BF16 as F32.
Tensor product(Tensor a, Tensor b) {
  return dot_general(a, b,
                     {.lhs_contract = {2}, .rhs_contract = {1}, .lhs_batch = {0}, .rhs_batch = {0}},
                     Precision::DEFAULT, DType::F32);
}

Tensor transposed(Tensor x) { return transpose(x, {0, 2, 1}); }

/// x [layers, m, n] with singular values near 1.
Tensor orthogonalized(Tensor x, int64_t iterations) {
  const bool tall = x.dim(1) > x.dim(2);
  const auto rounded = [](Tensor y) { return convert(y, DType::BF16); };
  const auto wide = [](Tensor y) { return convert(y, DType::F32); };
  x = rounded(tall ? transposed(x) : x);
  const Tensor norm = rounded(sqrt(sum(square(wide(x)), {1, 2}, /*keep_dims=*/true)));
  x = rounded(wide(x) / wide(maximum(norm, kSmallestNorm)));
  for (int64_t i = 0; i < iterations; ++i) {
    const Tensor gram = rounded(product(x, transposed(x)));
    const Tensor change = rounded(wide(gram) * kB + product(gram, gram) * kC);
    x = rounded(wide(x) * kA + product(change, x));
  }
  return wide(tall ? transposed(x) : x);
}

class Muon : public Optimizer {
 public:
  Muon(const MuonOptions& options, Memory memory)
      : Optimizer(memory), options_(options), adamw_(adamw(options.adamw, memory)) {}

  Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const override {
    return is_matrix(kept) ? Moments<nn::ParamSpec>{.mu = {kept}} : adamw_->moments(kept);
  }

  std::vector<Tensor> shared(const Update& how) const override { return adamw_->shared(how); }

  Tensor update(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                Tensor gradient, const Update& how) const override {
    if (!is_matrix(spec)) {
      return adamw_->update(spec, parameter, moments, gradient, how);
    }
    const Tensor g = how.limited(gradient);
    const Tensor p = convert(parameter, DType::F32);
    const double momentum = options_.momentum;
    const Tensor b = convert(moments.mu[0], DType::F32) * momentum + g * (1.0 - momentum);
    const Tensor u = options_.nesterov ? g * (1.0 - momentum) + b * momentum : b;
    const int64_t layers = spec.count();
    const int64_t m = spec.layer_shape().dims[0];
    const int64_t n = u.shape().elements() / (layers * m);
    const Tensor x = orthogonalized(reshape(u, {layers, m, n}), options_.iterations);
    Tensor change = reshape(x, u.shape().dims) * factor(m, n);
    if (options_.weight_decay > 0.0) {
      change = change + p * options_.weight_decay;
    }
    moments.mu = {how.result(b, moments.mu[0])};
    return how.result(p - change * how.learning_rate, parameter);
  }

 private:
  double factor(int64_t m, int64_t n) const {
    const auto rows = static_cast<double>(m);
    const auto columns = static_cast<double>(n);
    return options_.rate == MuonRate::ORIGINAL ? std::sqrt(std::max(1.0, rows / columns))
                                               : 0.2 * std::sqrt(std::max(rows, columns));
  }

  MuonOptions options_;
  std::shared_ptr<const Optimizer> adamw_;
};

}  // namespace

std::shared_ptr<const Optimizer> muon(const MuonOptions& options, Memory memory) {
  return std::make_shared<const Muon>(options, memory);
}

}  // namespace kinema::optimizers
