#include "kinema/optimizers/adafactor.h"

#include "kinema/optimizers/factored.h"

namespace kinema::optimizers {
namespace {

class Adafactor : public Optimizer {
 public:
  Adafactor(const AdafactorOptions& options, Memory memory)
      : Optimizer(memory), options_(options) {}

  Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const override {
    Moments<nn::ParamSpec> out;
    if (options_.b1 > 0.0) {
      out.mu = {kept};
    }
    out.nu = factored_specs(kept);
    return out;
  }

  /// t^-decay_power, which is 1 - b.
  std::vector<Tensor> shared(const Update& how) const override {
    return {exp(log(how.number) * -options_.decay_power)};
  }

  Tensor update(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                Tensor gradient, const Update& how) const override {
    const Tensor g = how.limited(gradient);
    const Tensor weight = how.shared[0];
    std::vector<Tensor> nu = factored(spec, square(g) + options_.eps);
    for (size_t i = 0; i < nu.size(); ++i) {
      nu[i] = moments.nu[i] * (1.0 - weight) + nu[i] * weight;
    }
    Tensor change = g * inverse_root(spec, nu);
    for (size_t i = 0; i < nu.size(); ++i) {
      moments.nu[i] = how.result(nu[i], moments.nu[i]);
    }
    change = change / maximum(rms_of_layer(spec, change) * (1.0 / options_.clip), 1.0);
    const Tensor p = convert(parameter, DType::F32);
    Tensor rate = how.learning_rate;
    if (options_.scale_parameter) {
      rate = rate * maximum(rms_of_layer(spec, p), options_.min_scale);
    }
    change = change * rate;
    if (!moments.mu.empty()) {
      change = convert(moments.mu[0], DType::F32) * options_.b1 + change * (1.0 - options_.b1);
      moments.mu = {how.result(change, moments.mu[0])};
    }
    if (options_.weight_decay > 0.0 && layer_rank(spec) >= options_.decay_min_rank) {
      change = change + p * (rate * options_.weight_decay);
    }
    return how.result(p - change, parameter);
  }

 private:
  AdafactorOptions options_;
};

}  // namespace

std::shared_ptr<const Optimizer> adafactor(const AdafactorOptions& options, Memory memory) {
  return std::make_shared<const Adafactor>(options, memory);
}

}  // namespace kinema::optimizers
