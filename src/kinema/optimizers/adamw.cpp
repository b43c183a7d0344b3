#include "kinema/optimizers/adamw.h"

#include "kinema/graph/scan.h"
#include "kinema/kernels/settings.h"
#include "kinema/optimizers/block_quantization.h"

namespace kinema::optimizers {
namespace {

/// One parameter's update, in the order of kernels/settings.h: p, mu, nu, gradient, scalars -> p,
/// mu, nu. `rate` replaces that of the scalars if it is not empty.
std::vector<Tensor> formula(const kernels::AdamWSettings& c, std::span<const Tensor> in,
                            bool may_keep, Tensor rate = {}) {
  const Tensor p = convert(in[0], DType::F32);
  const auto scalar = [&](int64_t i) { return reshape(slice(in[4], Axis(0), i, 1), {}); };
  const Update how{.factor = scalar(0),
                   .max_value = c.max_value,
                   .ok = may_keep ? compare(scalar(4), Comparison::NE, 0.0) : Tensor()};
  const Tensor g = how.limited(in[3]);
  const Tensor mu = convert(in[1], DType::F32) * c.b1 + g * (1.0 - c.b1);
  const Tensor nu = convert(in[2], DType::F32) * c.b2 + square(g) * (1.0 - c.b2);
  Tensor change = mu * scalar(1) / (sqrt(nu * scalar(2)) + c.eps);
  if (c.weight_decay != 0.0) {
    change = change + p * c.weight_decay;
  }
  const Tensor step = (rate ? rate : scalar(3)) * change;
  return {how.result(p - step, in[0]), how.result(mu, in[1]), how.result(nu, in[2])};
}

class AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options, Memory memory = Memory::DEVICE)
      : Optimizer(memory), options_(options) {}

  Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const override {
    return {.mu = {kept}, .nu = {kept}};
  }

  /// The scalars of the formula.
  std::vector<Tensor> shared(const Update& how) const override { return {scalars(how)}; }

  Tensor update(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                Tensor gradient, const Update& how) const override {
    const kernels::AdamWSettings settings = settings_of(spec, how);
    const bool may_keep = static_cast<bool>(how.ok);
    const std::vector<Tensor> given{parameter, moments.mu[0], moments.nu[0], gradient,
                                    scalars_of(how)};
    const std::vector<Tensor> updated =
        how.learning_rate.rank() > 0
            ? formula(settings, given, may_keep, how.learning_rate)
            : fused("adamw", settings, given,
                    [&](std::span<const Tensor> in) { return formula(settings, in, may_keep); });
    moments = {.mu = {updated[1]}, .nu = {updated[2]}};
    return updated[0];
  }

 protected:
  kernels::AdamWSettings settings_of(const nn::ParamSpec& spec, const Update& how) const {
    const bool decays = layer_rank(spec) >= options_.decay_min_rank;
    return {.b1 = options_.b1,
            .b2 = options_.b2,
            .eps = options_.eps,
            .weight_decay = decays ? options_.weight_decay : 0.0,
            .max_value = how.max_value};
  }

  /// Those of all parameters, or with the parameter's own rate.
  Tensor scalars_of(const Update& how) const {
    return how.has_own_rate && how.learning_rate.rank() == 0 ? scalars(how) : how.shared[0];
  }

 private:
  Tensor scalars(const Update& how) const {
    std::vector<Tensor> all;
    for (const Tensor x : {how.factor, 1.0 / one_minus_power(options_.b1, how.number),
                           1.0 / one_minus_power(options_.b2, how.number), how.learning_rate,
                           how.ok ? convert(how.ok, DType::F32) : ones_like(how.factor)}) {
      all.push_back(reshape(x, {1}));
    }
    return concatenate(all, Axis(0));
  }

  AdamWOptions options_;
};

class AdamW8bit : public AdamW {
 public:
  using AdamW::AdamW;

  Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const override {
    if (!is_in_blocks(kept)) {
      nn::ParamSpec wide = kept;
      wide.shape.dtype = DType::F32;
      return AdamW::moments(wide);
    }
    return {.mu = block_specs(kept), .nu = block_specs(kept)};
  }

  Tensor update(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                Tensor gradient, const Update& how) const override {
    if (!is_in_blocks(spec)) {
      return AdamW::update(spec, parameter, moments, gradient, how);
    }
    const int64_t width = row_width(spec);
    const auto wide = [&](const std::vector<Tensor>& kept, Signed is_signed) {
      return dequantized({kept[0], kept[1]}, width, is_signed);
    };
    const std::vector<Tensor> in{parameter, wide(moments.mu, Signed::YES),
                                 wide(moments.nu, Signed::NO), gradient, scalars_of(how)};
    const std::vector<Tensor> updated =
        formula(settings_of(spec, how), in, /*may_keep=*/static_cast<bool>(how.ok),
                how.learning_rate.rank() > 0 ? how.learning_rate : Tensor());
    const auto narrow = [&](Tensor values, std::vector<Tensor>& kept, Signed is_signed) {
      const Blocks blocks = quantized(values, width, is_signed);
      kept = {how.result(blocks.codes, kept[0]), how.result(blocks.absmax, kept[1])};
    };
    narrow(updated[1], moments.mu, Signed::YES);
    narrow(updated[2], moments.nu, Signed::NO);
    return updated[0];
  }
};

}  // namespace

std::shared_ptr<const Optimizer> adamw(const AdamWOptions& options, Memory memory) {
  return std::make_shared<const AdamW>(options, memory);
}

std::shared_ptr<const Optimizer> adamw_8bit(const AdamWOptions& options, Memory memory) {
  return std::make_shared<const AdamW8bit>(options, memory);
}

AdamWState adamw(const AdamWState& state, std::span<const nn::ParamSpec> specs,
                 std::span<const Tensor> gradients, Tensor norm, Tensor learning_rate,
                 const AdamWOptions& options, Tensor ok) {
  return update(AdamW(options), state, specs, gradients, norm, learning_rate, options.limits(), ok);
}

}  // namespace kinema::optimizers
