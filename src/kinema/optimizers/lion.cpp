#include "kinema/optimizers/lion.h"

#include <utility>

#include "kinema/optimizers/block_quantization.h"

namespace kinema::optimizers {
namespace {

class Lion : public Optimizer {
 public:
  explicit Lion(const LionOptions& options, Memory memory) : Optimizer(memory), options_(options) {}

  Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const override {
    return {.mu = {kept}};
  }

  std::vector<Tensor> shared(const Update& /*how*/) const override { return {}; }

  Tensor update(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                Tensor gradient, const Update& how) const override {
    const auto [p, m] = updated(spec, parameter, convert(moments.mu[0], DType::F32), gradient, how);
    moments.mu = {how.result(m, moments.mu[0])};
    return p;
  }

 protected:
  /// The parameter in its dtype, and m in F32.
  std::pair<Tensor, Tensor> updated(const nn::ParamSpec& spec, Tensor parameter, Tensor m,
                                    Tensor gradient, const Update& how) const {
    const Tensor g = how.limited(gradient);
    const Tensor p = convert(parameter, DType::F32);
    Tensor change = sign(m * options_.b1 + g * (1.0 - options_.b1));
    if (options_.weight_decay > 0.0 && layer_rank(spec) >= options_.decay_min_rank) {
      change = change + p * options_.weight_decay;
    }
    return {how.result(p - change * how.learning_rate, parameter),
            m * options_.b2 + g * (1.0 - options_.b2)};
  }

 private:
  LionOptions options_;
};

class Lion8bit : public Lion {
 public:
  using Lion::Lion;

  Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const override {
    if (is_in_blocks(kept)) {
      return {.mu = block_specs(kept)};
    }
    nn::ParamSpec wide = kept;
    wide.shape.dtype = DType::F32;
    return Lion::moments(wide);
  }

  Tensor update(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                Tensor gradient, const Update& how) const override {
    if (!is_in_blocks(spec)) {
      return Lion::update(spec, parameter, moments, gradient, how);
    }
    const int64_t width = row_width(spec);
    const Tensor before = dequantized({moments.mu[0], moments.mu[1]}, width, Signed::YES);
    const auto [p, m] = updated(spec, parameter, before, gradient, how);
    const Blocks blocks = quantized(m, width, Signed::YES);
    moments.mu = {how.result(blocks.codes, moments.mu[0]),
                  how.result(blocks.absmax, moments.mu[1])};
    return p;
  }
};

}  // namespace

std::shared_ptr<const Optimizer> lion(const LionOptions& options, Memory memory) {
  return std::make_shared<const Lion>(options, memory);
}

std::shared_ptr<const Optimizer> lion_8bit(const LionOptions& options, Memory memory) {
  return std::make_shared<const Lion8bit>(options, memory);
}

}  // namespace kinema::optimizers
