#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/scan.h"
#include "kinema/nn/params.h"

namespace kinema::nn {

/// Equal layers that a network runs one after the other. Their keys begin with `path.0.`, `path.1.`
/// and so on.
struct Layers {
  std::string path;
  int64_t count = 0;
};

/// Opens the parameters of every one. With `stacked` they are one stack, with keys that begin with
/// `path.{}.`.
void open_layers(SpecCollector& specs, const Layers& layers, bool stacked,
                 const std::function<void(const Params& layer)>& open);

/// A network's parameters with their tensors in a graph: what its `parameters` opened, for its
/// forward pass.
class Bound {
 public:
  /// One layer as it is run.
  struct Layer {
    Params params;
    /// Its number; -1 within a loop, where no one layer is looked at.
    int64_t number = -1;
    /// Slices of what lies along all layers beside their parameters.
    std::span<const Tensor> given = {};
  };
  struct Options {
    RematPolicy remat = {};
    /// Layers that do not lie in stacks are run without remat: someone looks at values inside.
    bool looked_at = false;
  };
  /// carry -> carry, of the same shapes.
  using Step =
      std::function<std::vector<Tensor>(const Layer& layer, std::span<const Tensor> carry)>;

  /// `tensors` are of the specs' shapes, in their order.
  Bound(std::vector<ParamSpec> specs, std::span<const Tensor> tensors,
        QuantizedProducts quantized = {}, Dropout low_rank_dropout = {});

  /// The parameters that are in no stack.
  Params root() { return {binder_, ""}; }

  /// carry through all layers: one loop where they are stacked, else one after the other, each
  /// recomputed as the remat policy says. `given` have a leading axis of layers.
  std::vector<Tensor> run(const Layers& layers, std::vector<Tensor> carry,
                          std::span<const Tensor> given, const Options& options, const Step& step);

  /// What `step` makes of each layer by itself, with a leading axis of layers.
  std::vector<Tensor> of_each(const Layers& layers, Graph& graph,
                              const std::function<std::vector<Tensor>(const Layer& layer)>& step);

 private:
  struct Stack {
    std::vector<std::string> keys;
    std::vector<Tensor> tensors;
  };
  Stack stack(const Layers& layers) const;
  /// The layer of a stack at a loop's turn.
  Binder turn(const Stack& stack, std::span<const Tensor> slices, Dropout low_rank_dropout) const;

  std::vector<ParamSpec> specs_;
  std::vector<Tensor> tensors_;
  QuantizedProducts quantized_;
  Dropout low_rank_dropout_;
  Binder binder_;
};

}  // namespace kinema::nn
