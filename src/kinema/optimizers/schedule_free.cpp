#include "kinema/optimizers/schedule_free.h"

namespace kinema::optimizers {
namespace {

enum FreeState : int64_t { LARGEST_RATE, TOTAL_WEIGHT, FREE_STATE };
/// Of Update::shared, after those.
enum FreeShared : size_t { SHARE = FREE_STATE, CORRECTION };

class ScheduleFree : public Optimizer {
 public:
  ScheduleFree(const ScheduleFreeOptions& options, Memory memory)
      : Optimizer(memory), options_(options) {}

  Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const override {
    nn::ParamSpec z = kept;
    z.name += ".z";
    return {.mu = {z}, .nu = {kept}};
  }

  std::optional<nn::ParamSpec> common() const override {
    return nn::ParamSpec{
        .name = "schedule_free", .shape = {DType::F32, {FREE_STATE}}, .axes = {""}};
  }

  bool moves_gradients() const override { return true; }

  Tensor gradient_point(Tensor parameter, const Moments<Tensor>& moments,
                        Tensor count) const override {
    const Tensor x = convert(parameter, DType::F32);
    const Tensor z = select(compare(count, Comparison::EQ, 0), parameter, moments.mu[0]);
    return x + (convert(z, DType::F32) - x) * (1.0 - options_.b1);
  }

  /// The largest rate, W, w / W and 1 / (1 - b2^t).
  std::vector<Tensor> shared(const Update& how) const override {
    const auto before = [&](FreeState which) {
      return reshape(slice(how.common, Axis(0), which, 1), {});
    };
    const Tensor rate = maximum(how.learning_rate, before(LARGEST_RATE));
    const Tensor some = compare(rate, Comparison::GT, 0.0);
    const Tensor zero = rate * 0.0;
    const auto power = [](Tensor x, double p) { return exp(log(x) * p); };
    Tensor weight = power(rate, options_.weight_power);
    if (options_.average_power != 0.0) {
      weight = weight * power(how.number, options_.average_power);
    }
    weight = select(some, weight, zero);
    const Tensor total = before(TOTAL_WEIGHT) + weight;
    const Tensor share = select(some, weight / select(some, total, ones_like(total)), zero);
    return {rate, total, share, 1.0 / one_minus_power(options_.b2, how.number)};
  }

  Tensor update(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                Tensor gradient, const Update& how) const override {
    const Tensor g = how.limited(gradient);
    const Tensor x = convert(parameter, DType::F32);
    const Tensor first = compare(how.number, Comparison::EQ, 1.0);
    const Tensor z0 = convert(select(first, parameter, moments.mu[0]), DType::F32);
    const Tensor v =
        convert(moments.nu[0], DType::F32) * options_.b2 + square(g) * (1.0 - options_.b2);
    Tensor change = g / (sqrt(v * how.shared[CORRECTION]) + options_.eps);
    if (options_.weight_decay > 0.0 && layer_rank(spec) >= options_.decay_min_rank) {
      change = change + (x + (z0 - x) * (1.0 - options_.b1)) * options_.weight_decay;
    }
    const Tensor z = z0 - change * how.learning_rate;
    moments.mu = {how.result(z, moments.mu[0])};
    moments.nu = {how.result(v, moments.nu[0])};
    return how.result(x + (z - x) * how.shared[SHARE], parameter);
  }

 private:
  ScheduleFreeOptions options_;
};

}  // namespace

std::shared_ptr<const Optimizer> schedule_free(const ScheduleFreeOptions& options, Memory memory) {
  return std::make_shared<const ScheduleFree>(options, memory);
}

}  // namespace kinema::optimizers
