#include "kinema/training/adafactor.h"

namespace kinema::training {
namespace {

/// A spec without one of its axes, counted from the last.
nn::ParamSpec without_axis(const nn::ParamSpec& spec, int64_t from_last, const char* suffix) {
  nn::ParamSpec out = spec;
  out.name += suffix;
  out.shape.dtype = DType::F32;
  out.shape.dims.erase(out.shape.dims.end() - from_last);
  out.axes.resize(static_cast<size_t>(layer_rank(spec)));
  out.axes.erase(out.axes.end() - from_last);
  return out;
}

class Adafactor : public Optimizer {
 public:
  Adafactor(const AdafactorOptions& options, Memory memory)
      : Optimizer(memory), options_(options) {}

  Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const override {
    Moments<nn::ParamSpec> out;
    if (options_.b1 > 0.0) {
      out.mu = {kept};
    }
    if (is_factored(kept)) {
      out.nu = {without_axis(kept, 1, ".row"), without_axis(kept, 2, ".col")};
    } else {
      nn::ParamSpec squares = kept;
      squares.shape.dtype = DType::F32;
      out.nu = {squares};
    }
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
    const auto mixed = [&](Tensor old, Tensor now) { return old * (1.0 - weight) + now * weight; };
    const Tensor squares = square(g) + options_.eps;
    Tensor change;
    if (is_factored(spec)) {
      const int64_t last = g.rank() - 1;
      const Tensor row = mixed(moments.nu[0], mean(squares, {last}));
      const Tensor col = mixed(moments.nu[1], mean(squares, {last - 1}));
      const Tensor of_row = rsqrt(row / mean(row, {row.rank() - 1}, /*keep_dims=*/true));
      change = g * expand_dims(of_row, Axis(-1)) * expand_dims(rsqrt(col), Axis(-2));
      moments.nu = {how.result(row, moments.nu[0]), how.result(col, moments.nu[1])};
    } else {
      const Tensor nu = mixed(moments.nu[0], squares);
      change = g * rsqrt(nu);
      moments.nu = {how.result(nu, moments.nu[0])};
    }
    change = change / maximum(rms_of_layer(spec, change) * (1.0 / options_.clip), 1.0);
    change = change * how.learning_rate;
    if (!moments.mu.empty()) {
      change = convert(moments.mu[0], DType::F32) * options_.b1 + change * (1.0 - options_.b1);
      moments.mu = {how.result(change, moments.mu[0])};
    }
    const Tensor p = convert(parameter, DType::F32);
    if (options_.weight_decay > 0.0 && layer_rank(spec) >= options_.decay_min_rank) {
      change = change + p * (how.learning_rate * options_.weight_decay);
    }
    return how.result(p - change, parameter);
  }

 private:
  static bool is_factored(const nn::ParamSpec& spec) { return layer_rank(spec) >= 2; }

  /// Root mean square per layer of a stack, with the axes of x.
  static Tensor rms_of_layer(const nn::ParamSpec& spec, Tensor x) {
    std::vector<int64_t> axes;
    for (int64_t axis = spec.layers > 0 ? 1 : 0; axis < x.rank(); ++axis) {
      axes.push_back(axis);
    }
    return sqrt(axes.empty() ? square(x) : mean(square(x), axes, /*keep_dims=*/true));
  }

  AdafactorOptions options_;
};

}  // namespace

std::shared_ptr<const Optimizer> adafactor(const AdafactorOptions& options, Memory memory) {
  return std::make_shared<const Adafactor>(options, memory);
}

}  // namespace kinema::training
