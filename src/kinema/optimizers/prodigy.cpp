#include "kinema/optimizers/prodigy.h"

#include <cmath>

namespace kinema::optimizers {
namespace {

enum ProdigyState : int64_t { D, LARGEST_D, NUMERATOR, PRODIGY_STATE };
enum ProdigyFirst : size_t { M, SUM, INITIAL };

class Prodigy : public Optimizer {
 public:
  Prodigy(const ProdigyOptions& options, Memory memory)
      : Optimizer(memory),
        options_(options),
        b3_(options.b3 > 0.0 ? options.b3 : std::sqrt(options.b2)) {}

  Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const override {
    const auto named = [&](const char* suffix) {
      nn::ParamSpec out = kept;
      out.name += suffix;
      return out;
    };
    return {.mu = {kept, named(".sum"), named(".initial")}, .nu = {kept}};
  }

  std::optional<nn::ParamSpec> common() const override {
    return nn::ParamSpec{.name = "prodigy", .shape = {DType::F32, {PRODIGY_STATE}}, .axes = {""}};
  }

  std::optional<int64_t> estimate() const override { return D; }

  /// The parameter's addends of r and of sum|s|.
  std::vector<Tensor> contributions(const nn::ParamSpec& /*spec*/, Tensor parameter,
                                    const Moments<Tensor>& moments, Tensor gradient,
                                    const Update& how) const override {
    const Tensor g = how.limited(gradient);
    const Tensor moved = initial(parameter, moments, how) - convert(parameter, DType::F32);
    const Tensor weight = old_d(how) * (1.0 / options_.d0) * rate(how) * learns(how);
    return {sum(g * moved * weight), sum(abs(sums(moments, g, how)) * learns(how))};
  }

  /// d', its largest estimate and r afterwards.
  std::vector<Tensor> shared(const Update& how) const override {
    const Tensor d = old_d(how);
    const Tensor denominator = how.sums[1];
    const Tensor estimates = compare(denominator, Comparison::GT, 0.0);
    const Tensor before = at(how, NUMERATOR);
    const Tensor numerator = before * b3_ + how.sums[0];
    const Tensor safe = select(estimates, denominator, ones_like(denominator));
    const Tensor found = options_.d_coef * numerator / safe;
    const Tensor first = compare(d, Comparison::EQ, options_.d0);
    const Tensor grown = select(first, maximum(d, found), d);
    const Tensor largest = maximum(largest_d(how), found);
    const Tensor next = std::isfinite(options_.growth_rate)
                            ? minimum(largest, grown * options_.growth_rate)
                            : largest;
    return {select(estimates, next, d), select(estimates, largest, largest_d(how)),
            select(estimates, numerator, before)};
  }

  Tensor update(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                Tensor gradient, const Update& how) const override {
    const Tensor g = how.limited(gradient);
    const Tensor p = convert(parameter, DType::F32);
    const Tensor learning = compare(how.learning_rate, Comparison::GT, 0.0);
    const auto learned = [&](Tensor now, Tensor old) { return select(learning, now, old); };
    const Tensor d = old_d(how);
    const Tensor m0 = convert(moments.mu[M], DType::F32);
    const Tensor v0 = convert(moments.nu[0], DType::F32);
    const Tensor m = learned(m0 * options_.b1 + g * (d * (1.0 - options_.b1)), m0);
    const Tensor v = learned(v0 * options_.b2 + square(g) * (d * d * (1.0 - options_.b2)), v0);
    const Tensor s = learned(sums(moments, g, how), convert(moments.mu[SUM], DType::F32));
    Tensor change = m / (sqrt(v) + how.shared[D] * options_.eps);
    if (options_.weight_decay > 0.0 && layer_rank(spec) >= options_.decay_min_rank) {
      change = change + p * options_.weight_decay;
    }
    const Tensor p0 = initial(parameter, moments, how);
    moments.mu = {how.result(m, moments.mu[M]), how.result(s, moments.mu[SUM]),
                  how.result(p0, moments.mu[INITIAL])};
    moments.nu = {how.result(v, moments.nu[0])};
    return how.result(p - rate(how) * change, parameter);
  }

 private:
  static Tensor at(const Update& how, ProdigyState which) {
    return reshape(slice(how.common, Axis(0), which, 1), {});
  }
  /// Before the first update the state is zero, which stands for d0.
  Tensor old_d(const Update& how) const { return maximum(at(how, D), options_.d0); }
  Tensor largest_d(const Update& how) const { return maximum(at(how, LARGEST_D), options_.d0); }

  /// c of the formulas.
  Tensor rate(const Update& how) const {
    const Tensor c = old_d(how) * how.learning_rate;
    return options_.bias_correction ? c * sqrt(one_minus_power(options_.b2, how.number)) /
                                          one_minus_power(options_.b1, how.number)
                                    : c;
  }

  static Tensor learns(const Update& how) {
    return convert(compare(how.learning_rate, Comparison::GT, 0.0), DType::F32);
  }

  static Tensor initial(Tensor parameter, const Moments<Tensor>& moments, const Update& how) {
    return convert(select(compare(how.number, Comparison::EQ, 1.0), parameter, moments.mu[INITIAL]),
                   DType::F32);
  }

  /// s of the formulas, if the rate is not 0.
  Tensor sums(const Moments<Tensor>& moments, Tensor g, const Update& how) const {
    const Tensor d = old_d(how);
    const Tensor weight = d * (1.0 / options_.d0) * (options_.safeguard_warmup ? d : rate(how));
    return convert(moments.mu[SUM], DType::F32) * b3_ + g * weight;
  }

  ProdigyOptions options_;
  double b3_;
};

}  // namespace

std::shared_ptr<const Optimizer> prodigy(const ProdigyOptions& options, Memory memory) {
  return std::make_shared<const Prodigy>(options, memory);
}

}  // namespace kinema::optimizers
