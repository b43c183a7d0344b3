#include "kinema/optimizers/came.h"

#include <algorithm>
#include <iterator>

#include "kinema/optimizers/factored.h"

namespace kinema::optimizers {
namespace {

/// b old + (1 - b) now.
std::vector<Tensor> mixed(double b, std::span<const Tensor> old, const std::vector<Tensor>& now) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < now.size(); ++i) {
    out.push_back(old[i] * b + now[i] * (1.0 - b));
  }
  return out;
}

class Came : public Optimizer {
 public:
  explicit Came(const CameOptions& options, Memory memory) : Optimizer(memory), options_(options) {}

  Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const override {
    Moments<nn::ParamSpec> out{.mu = {kept}, .nu = factored_specs(kept)};
    if (is_factored(kept)) {
      std::ranges::copy(factored_specs(kept, "distance_"), std::back_inserter(out.nu));
    }
    return out;
  }

  std::vector<Tensor> shared(const Update& /*how*/) const override { return {}; }

  Tensor update(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                Tensor gradient, const Update& how) const override {
    const Tensor g = how.limited(gradient);
    std::vector<Tensor> nu =
        mixed(options_.b2, moments.nu, factored(spec, square(g) + options_.eps));
    Tensor u = g * inverse_root(spec, nu);
    u = u / maximum(rms_of_layer(spec, u) * (1.0 / options_.clip), 1.0);
    const Tensor m = convert(moments.mu[0], DType::F32) * options_.b1 + u * (1.0 - options_.b1);
    Tensor change = m;
    if (is_factored(spec)) {
      const std::vector<Tensor> distances =
          mixed(options_.b3, std::span(moments.nu).subspan(2),
                factored(spec, square(u - m) + options_.distance_eps));
      change = m * inverse_root(spec, distances);
      std::ranges::copy(distances, std::back_inserter(nu));
    }
    const Tensor p = convert(parameter, DType::F32);
    if (options_.weight_decay > 0.0 && layer_rank(spec) >= options_.decay_min_rank) {
      change = change + p * options_.weight_decay;
    }
    moments.mu = {how.result(m, moments.mu[0])};
    for (size_t i = 0; i < nu.size(); ++i) {
      moments.nu[i] = how.result(nu[i], moments.nu[i]);
    }
    return how.result(p - change * how.learning_rate, parameter);
  }

 private:
  CameOptions options_;
};

}  // namespace

std::shared_ptr<const Optimizer> came(const CameOptions& options, Memory memory) {
  return std::make_shared<const Came>(options, memory);
}

}  // namespace kinema::optimizers
