#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

namespace kinema::optimizers {

/// The moments of one parameter, as specs or as tensors in the same order. The optimizer decides
/// their number; either list may be empty.
template <typename T>
struct Moments {
  std::vector<T> mu;  // of the gradient
  std::vector<T> nu;  // of its square
};

/// The state of an optimizer: parameters, the moments of one parameter after the other (`mu` begins
/// with Optimizer::common, if there is one), and the number of updates so far (S32 scalar).
struct OptimizerState {
  std::vector<Tensor> params;
  std::vector<Tensor> mu;
  std::vector<Tensor> nu;
  Tensor count;
};

/// Limits of gradients, for any optimizer.
struct GradientLimits {
  /// Clips every element to +- this, before the norm is clipped.
  std::optional<double> max_value = {};
  /// Clips the global L2 norm of the gradients.
  std::optional<double> max_norm = {};
};

/// The inputs of an update. All parameters share them, except for a learning rate of their own.
struct Update {
  Tensor factor;         // F32 scalar: multiplies the gradient, for the norm's limit
  double max_value = 0;  // limit of the elements before that; 0: none
  Tensor number;         // F32 scalar: number of the update, from 1
  Tensor learning_rate;  // F32: a scalar, or [layers, 1, ...] for layers with different rates
  Tensor ok;             // pred scalar: false leaves all unchanged; empty: always true
  /// True if `learning_rate` is not that of the other parameters.
  bool has_own_rate = false;
  Tensor common = {};             // Optimizer::common before the update
  std::vector<Tensor> sums = {};  // F32 scalars: Optimizer::contributions of all parameters
  /// The results of Optimizer::shared.
  std::vector<Tensor> shared = {};

  /// The clipped gradient, in F32.
  Tensor limited(Tensor gradient) const;
  /// `updated` rounded to the dtype of `old`; `old` if `ok` is false.
  Tensor result(Tensor updated, Tensor old) const;
};

/// An update rule: the moments of each parameter, and the update. Immutable.
class Optimizer {
 public:
  explicit Optimizer(Memory memory = Memory::DEVICE) : memory_(memory) {}
  virtual ~Optimizer() = default;

  /// Memory of the moments that are matrices, and of averages of parameters; vectors are small and
  /// stay on the device. DEVICE or HOST.
  Memory memory() const { return memory_; }

  /// Specs of the moments of a parameter; `kept` has the parameter's stored shape and dtype. All
  /// moments start at zero. Layers of a stack are separate parameters.
  virtual Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const = 0;

  /// The same, with their memory.
  Moments<nn::ParamSpec> kept(const nn::ParamSpec& parameter) const;

  /// State that all parameters share: F32 [n], initially zero. Nothing by default.
  virtual std::optional<nn::ParamSpec> common() const { return {}; }

  /// What one parameter adds to Update::sums: F32 scalars. `how` is without sums and shared values.
  /// Nothing by default.
  virtual std::vector<Tensor> contributions(const nn::ParamSpec& /*spec*/, Tensor /*parameter*/,
                                            const Moments<Tensor>& /*moments*/, Tensor /*gradient*/,
                                            const Update& /*how*/) const {
    return {};
  }

  /// Values that do not depend on the parameter. The first ones are the new elements of `common`,
  /// as F32 scalars.
  virtual std::vector<Tensor> shared(const Update& update) const = 0;

  /// Where gradients are computed, if not at the parameters themselves.
  virtual bool moves_gradients() const { return false; }
  /// The parameter there, in F32; `count` is the number of updates so far (S32 scalar).
  virtual Tensor gradient_point(Tensor parameter, const Moments<Tensor>& /*moments*/,
                                Tensor /*count*/) const {
    return parameter;
  }

  /// The index in `common` of D-adaptation's estimate d of the distance to the solution, which
  /// multiplies the learning rate.
  virtual std::optional<int64_t> estimate() const { return {}; }

  /// The updated parameter, in its dtype; `moments` are updated too. `gradient` may have any float
  /// dtype.
  virtual Tensor update(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                        Tensor gradient, const Update& how) const = 0;

 private:
  Memory memory_;
};

/// Sets the memory, between steps, of the matrices among `kept`.
void set_memory(std::span<nn::ParamSpec> kept, Memory memory);

/// `f(tensors)`, whose results replace the first tensors, those that have specs, and have their
/// shapes; the others are only read. All belong to one parameter, or to a stack. If something is in
/// host memory, f is called with one layer of a stack at a time, so that one layer is on the
/// device; a tensor that is not a stack is copied to the device and back.
using LayerRule = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
std::vector<Tensor> layer_by_layer(std::span<const nn::ParamSpec> specs,
                                   std::span<const Tensor> tensors, const LayerRule& f);

/// `f(tensors)` as new tensors in device memory. If something is in host memory, f is called with
/// one layer of a stack at a time, and its results are stacked.
std::vector<Tensor> from_layers(std::span<const nn::ParamSpec> specs,
                                std::span<const Tensor> tensors, const LayerRule& f);

/// The parameters at which gradients are computed (Optimizer::moves_gradients), in device memory
/// and in `dtypes`.
std::vector<Tensor> gradient_points(const Optimizer& optimizer, const OptimizerState& state,
                                    std::span<const nn::ParamSpec> specs,
                                    std::span<const DType> dtypes);

/// The rank of one layer's tensor.
int64_t layer_rank(const nn::ParamSpec& spec);

/// 1 - b^t for an F32 scalar t, without the cancellation of 1 - pow(b, t) for b near 1.
Tensor one_minus_power(double b, Tensor t);

/// Of all gradients, F32 vectors with one entry per parameter, or per layer of a stacked parameter,
/// in order. A non-finite gradient gives non-finite entries.
struct GradientSizes {
  Tensor squares;  // sums of squares, of elements clipped to +- max_value if it is set
  Tensor largest;  // maximum magnitudes, unclipped
};
GradientSizes gradient_sizes(std::span<const nn::ParamSpec> specs,
                             std::span<const Tensor> gradients,
                             std::optional<double> max_value = {});

/// The sum of a vector F32 [n].
Tensor total(Tensor x);

/// Factors of the learning rate for a parameter: one, or one per layer; empty: 1.
using RateFactors = std::vector<double>;

/// One update of all parameters. `learning_rate` is an F32 scalar and `norm` the global L2 norm of
/// the gradients before clipping (F32 scalar). If `ok` (pred scalar) is not empty and false, every
/// result is the old value. `rates`: empty, or the factors of each parameter.
OptimizerState update(const Optimizer& optimizer, const OptimizerState& state,
                      std::span<const nn::ParamSpec> specs, std::span<const Tensor> gradients,
                      Tensor norm, Tensor learning_rate, const GradientLimits& limits,
                      Tensor ok = {}, std::span<const RateFactors> rates = {});

}  // namespace kinema::optimizers
