#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/nn/params.h"

namespace kinema::training {

/// What an optimizer keeps of one parameter, as specs, or tensors in the same order. How many there
/// are is the optimizer's to say; either list may be empty.
template <typename T>
struct Moments {
  std::vector<T> mu;  // of the gradient
  std::vector<T> nu;  // of its square
};

/// What an optimizer works on: parameters, the moments of each after those of the one before it,
/// and the number of updates made (S32 scalar).
struct OptimizerState {
  std::vector<Tensor> params;
  std::vector<Tensor> mu;
  std::vector<Tensor> nu;
  Tensor count;
};

/// Limits of gradients, whatever the optimizer.
struct GradientLimits {
  /// Of every element, to +- this; before the norm is limited.
  std::optional<double> max_value = {};
  /// Of the L2 norm of all gradients together.
  std::optional<double> max_norm = {};
};

/// What an update is the same in for every parameter.
struct Update {
  Tensor factor;         // F32 scalar: what the gradient is multiplied by, for its norm's limit
  double max_value = 0;  // limit of its elements before that; 0: none
  Tensor number;         // F32 scalar: of the update, from 1
  Tensor learning_rate;  // F32 scalar
  Tensor ok;             // pred scalar: false leaves all as it was; empty: always true
  /// What the optimizer made of these once (Optimizer::shared).
  std::vector<Tensor> shared = {};

  /// The gradient, limited, in F32.
  Tensor limited(Tensor gradient) const;
  /// `updated` rounded to the dtype of `old`, or `old` where nothing changes.
  Tensor result(Tensor updated, Tensor old) const;
};

/// A rule by which parameters are updated, one by one: what it keeps of each, and the update.
/// Never changes.
class Optimizer {
 public:
  explicit Optimizer(Memory memory = Memory::DEVICE) : memory_(memory) {}
  virtual ~Optimizer() = default;

  /// Where the matrices that it keeps wait, and averages of parameters; vectors are small, and stay
  /// on the device. DEVICE or HOST.
  Memory memory() const { return memory_; }

  /// What it keeps of a parameter, of which `kept` says shape and dtype between steps. All of it
  /// begins at zero. Layers of a stack are parameters each.
  virtual Moments<nn::ParamSpec> moments(const nn::ParamSpec& kept) const = 0;

  /// The same with where it waits.
  Moments<nn::ParamSpec> kept(const nn::ParamSpec& parameter) const;

  /// What does not depend on the parameter.
  virtual std::vector<Tensor> shared(const Update& update) const = 0;

  /// The parameter after the update, in the dtype it has; `moments` become those after it.
  /// `gradient` may have any float dtype.
  virtual Tensor update(const nn::ParamSpec& spec, Tensor parameter, Moments<Tensor>& moments,
                        Tensor gradient, const Update& how) const = 0;

 private:
  Memory memory_;
};

/// Says of the matrices among what is kept of parameters where they wait between steps.
void set_memory(std::span<nn::ParamSpec> kept, Memory memory);

/// `f(tensors)`, whose results take the place of the first tensors, those that there are specs of,
/// and have their shapes; the others are only read. All are of one parameter, or of a stack. Where
/// something waits on the host, f is given a stack layer by layer, so that one layer of it is on
/// the device; what is no stack is fetched and put back.
using LayerRule = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
std::vector<Tensor> layer_by_layer(std::span<const nn::ParamSpec> specs,
                                   std::span<const Tensor> tensors, const LayerRule& f);

/// Rank of one layer's tensor.
int64_t layer_rank(const nn::ParamSpec& spec);

/// 1 - b^t for an F32 scalar t, without the cancellation that 1 - pow(b, t) has for b near 1.
Tensor one_minus_power(double b, Tensor t);

/// Of every gradient, F32 vectors with one entry per parameter, and one per layer of a stacked
/// parameter, in order. A non-finite gradient gives non-finite entries.
struct GradientSizes {
  Tensor squares;  // sums of squares, of elements limited to +- max_value where it is given
  Tensor largest;  // magnitudes of elements as they are
};
GradientSizes gradient_sizes(std::span<const nn::ParamSpec> specs,
                             std::span<const Tensor> gradients,
                             std::optional<double> max_value = {});

/// Sum of a vector F32 [n].
Tensor total(Tensor x);

/// One update of all parameters. `learning_rate` is an F32 scalar and `norm` the L2 norm of all
/// gradients before they are limited (F32 scalar). Where `ok` (pred scalar) is given and false,
/// every result is the old value.
OptimizerState update(const Optimizer& optimizer, const OptimizerState& state,
                      std::span<const nn::ParamSpec> specs, std::span<const Tensor> gradients,
                      Tensor norm, Tensor learning_rate, const GradientLimits& limits,
                      Tensor ok = {});

}  // namespace kinema::training
