#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/scan.h"

namespace kinema {

/// The inside of a loop or call: a graph whose last inputs are captures, and what it returns.
struct Body {
  std::unique_ptr<Graph> graph;
  std::vector<Tensor> outputs;
  RematPolicy remat;
  /// Outputs that were added for a backward pass, by the body's tensor.
  std::map<std::pair<const Node*, int64_t>, int64_t> exported;
};

/// Copies nodes between graphs: `sources` (and what they need) to `target`. `known` maps tensors that
/// already exist there; it grows by what was copied.
class Transplant {
 public:
  using Key = std::pair<const Node*, int64_t>;

  explicit Transplant(Graph& target) : target_(target) {}
  void know(Tensor source, Tensor in_target) { known_[{&source.node(), source.result()}] = in_target; }
  Tensor operator()(Tensor source);

 private:
  void copy(Node& node);

  Graph& target_;
  std::map<Key, Tensor> known_;
};

/// A deep copy whose captures are taken as plain inputs of `parent`'s child.
std::shared_ptr<Body> clone(const Body& body, Graph& parent);

/// The backward pass of a body: differentiated once in a scratch copy, then split into what the
/// forward pass must keep and what is computed again.
class BodyGradient {
 public:
  /// `has_cotangent[i]`: output i of the body gets a cotangent. `wanted[j]`: the gradient of input j
  /// is asked for.
  BodyGradient(const Body& body, std::span<const bool> has_cotangent, std::span<const bool> wanted);

  /// Tensors of the body (inputs among them) whose values the backward pass reads.
  std::span<const Tensor> kept() const { return kept_; }
  /// True where input j of the body got a gradient.
  bool has_gradient(size_t input) const { return static_cast<bool>(gradients_[input]); }

  /// Writes the backward pass into `target`: `value(t)` stands for kept tensor t, `cotangents` are in
  /// order of the outputs that have one. Returns a gradient per input, empty where there is none.
  std::vector<Tensor> build(Graph& target, const std::function<Tensor(Tensor kept)>& value,
                            std::span<const Tensor> cotangents) const;

 private:
  void keep(Tensor scratch);
  bool saves(Tensor scratch) const;

  Graph scratch_;
  RematPolicy policy_;
  int64_t forward_count_ = 0;
  std::map<const Node*, Node*> original_;         // scratch node -> body node
  std::map<const Node*, Tensor> copied_inputs_;   // body input -> scratch
  std::vector<Tensor> cotangent_inputs_;          // scratch
  std::vector<Tensor> gradients_;                 // scratch, per body input
  std::vector<Tensor> kept_;                      // body
  std::vector<Tensor> kept_scratch_;              // the same in scratch
  std::map<std::pair<const Node*, int64_t>, bool> visited_;
};

}  // namespace kinema
