#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/scan.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// Equal layers that a network runs one after the other. Their keys start with `path.0.`, `path.1.`
/// and so on.
struct Layers {
  std::string path;
  int64_t count = 0;
};

/// Opens the parameters of all layers. With `stacked` they form one stack, with keys that start
/// with `path.{}.`.
void open_layers(SpecCollector& specs, const Layers& layers, bool stacked,
                 const std::function<void(const Params& layer)>& open);

/// A network's parameters with their tensors in a graph, for the forward pass.
class Bound {
 public:
  /// One layer in the forward pass.
  struct Layer {
    Params params;
    /// Its number; -1 inside a loop over the stack.
    int64_t number = -1;
    /// This layer's slices of the `given` tensors.
    std::span<const Tensor> given = {};
  };
  struct Options {
    RematPolicy remat = {};
    /// Layers that are not stacked run without remat, because values inside them are inspected.
    bool has_tap = false;
  };
  /// carry -> carry, of the same shapes.
  using Step =
      std::function<std::vector<Tensor>(const Layer& layer, std::span<const Tensor> carry)>;

  /// `tensors` have the specs' shapes, in their order.
  Bound(std::vector<ParamSpec> specs, std::span<const Tensor> tensors,
        QuantizedProducts quantized = {}, Dropout low_rank_dropout = {});

  /// The parameters that are not in a stack.
  Params root() { return {binder_, ""}; }

  /// Runs carry through all layers: in one loop if they are stacked, else one after the other, each
  /// rematerialized according to the policy. `given` tensors have a leading axis of layers.
  std::vector<Tensor> run(const Layers& layers, std::vector<Tensor> carry,
                          std::span<const Tensor> given, const Options& options, const Step& step);

  /// The results of `step` for each layer separately, with a leading axis of layers.
  std::vector<Tensor> per_layer(const Layers& layers, Graph& graph,
                                const std::function<std::vector<Tensor>(const Layer& layer)>& step);

 private:
  struct Stack {
    std::vector<std::string> keys;
    std::vector<Tensor> tensors;
  };
  Stack stack(const Layers& layers) const;
  /// The layer of a stack in a loop iteration.
  Binder turn(const Stack& stack, std::span<const Tensor> slices, Dropout low_rank_dropout) const;

  std::vector<ParamSpec> specs_;
  std::vector<Tensor> tensors_;
  QuantizedProducts quantized_;
  Dropout low_rank_dropout_;
  Binder binder_;
};

}  // namespace kinema::nn
