#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

namespace kinema::training {

/// The moments of one parameter, as specs or as tensors in the same order. The optimizer decides
/// their number; either list may be empty.
template <typename T>
struct Moments {
  std::vector<T> mu;  // of the gradient
  std::vector<T> nu;  // of its square
};

/// The state of an optimizer: parameters, the moments of one parameter after the other, and the
/// number of updates so far (S32 scalar).
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

/// The inputs of an update that all parameters share.
struct Update {
  Tensor factor;         // F32 scalar: multiplies the gradient, for the norm's limit
  double max_value = 0;  // limit of the elements before that; 0: none
  Tensor number;         // F32 scalar: number of the update, from 1
  Tensor learning_rate;  // F32 scalar
  Tensor ok;             // pred scalar: false leaves all unchanged; empty: always true
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

  /// Values that do not depend on the parameter.
  virtual std::vector<Tensor> shared(const Update& update) const = 0;

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

/// One update of all parameters. `learning_rate` is an F32 scalar and `norm` the global L2 norm of
/// the gradients before clipping (F32 scalar). If `ok` (pred scalar) is not empty and false, every
/// result is the old value.
OptimizerState update(const Optimizer& optimizer, const OptimizerState& state,
                      std::span<const nn::ParamSpec> specs, std::span<const Tensor> gradients,
                      Tensor norm, Tensor learning_rate, const GradientLimits& limits,
                      Tensor ok = {});

}  // namespace kinema::training
