#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/graph/scan.h"

namespace kinema {

using TensorKey = std::pair<const Node*, int64_t>;
inline TensorKey key_of(Tensor x) { return {&x.node(), x.result()}; }

/// The body of a loop, a call or a manual region; the attributes of kScan, kCall and kManual hold
/// one as `std::shared_ptr<Body>`.
///
/// Its inputs are the node's inputs in order: carry, slices of the xs, captures.
struct Body {
  std::unique_ptr<Graph> graph;
  /// Carry, then ys (a call has only ys), then values that backward passes have added.
  std::vector<Tensor> outputs;
  RematPolicy remat;
  int64_t length = 1;
  int64_t first = 0;  // ScanPart::first
  bool reverse = false;
  size_t carries = 0;
  size_t xs = 0;
  std::map<size_t, size_t> in_place;  // ScanOptions::in_place
  /// The results added for a backward pass, by the body's tensor.
  std::map<TensorKey, int64_t> exported;
  /// Of calls made by `fused`: the name and settings for a target's kernel. Of manual regions:
  /// their ManualAttrs.
  std::string kernel;
  std::any settings;
  /// Of calls made by `with_gradient`: their backward pass.
  GradientRule rule;
  /// Of the same calls: remat policies treat it as a dot without batch axes.
  bool is_product = false;
};

extern const Op kScan;
extern const Op kCall;
extern const Op kManual;

/// The number of devices that run a manual region's body, each on its parts.
int64_t devices_of(const Body& manual_region);

/// kScan's emission (scan_emit.cpp).
void emit_scan(const Node& node, Emitter& out);

/// Copies nodes between graphs, with everything that they depend on.
class GraphCopy {
 public:
  explicit GraphCopy(Graph& target) : target_(target) {}

  /// `source` already exists in the target (or in a graph around it): as `in_target`.
  void add_mapping(Tensor source, Tensor in_target) { known_[key_of(source)] = in_target; }
  Tensor operator()(Tensor source);
  const std::map<TensorKey, Tensor>& known() const { return known_; }

 private:
  void copy(Node& node);

  Graph& target_;
  std::map<TensorKey, Tensor> known_;
};

/// The backward pass of a body. It is differentiated in a scratch copy, then divided into the
/// values that the forward pass must keep and those that are computed again.
class BodyGradient {
 public:
  /// `has_cotangent[i]`: output i has a cotangent. `wanted[j]`: compute the gradient of input j.
  BodyGradient(const Body& body, const std::vector<bool>& has_cotangent,
               const std::vector<bool>& wanted);

  /// Tensors of the body (including inputs) that the backward pass reads.
  const std::vector<Tensor>& kept() const { return kept_; }
  /// True if the policy offloads this kept value to host memory.
  bool offloads(Tensor kept) const;
  /// True if input j of the body has a gradient.
  bool has_gradient(size_t input) const { return static_cast<bool>(gradients_[input]); }

  /// Writes the backward pass into `target`: `value(t)` returns kept tensor t; `cotangents` are in
  /// the order of the outputs that have one. Returns one gradient per input, empty for inputs
  /// without.
  std::vector<Tensor> build(Graph& target, const std::function<Tensor(Tensor kept)>& value,
                            std::span<const Tensor> cotangents) const;

 private:
  void collect_names();
  bool has_name(Tensor kept, const std::vector<std::string>& names) const;
  void keep_what_gradients_read();
  void keep_fewest_bytes(std::span<const Tensor> reads);
  void keep(Tensor scratch);
  bool saves(Tensor scratch) const;

  RematPolicy policy_;
  int64_t carries_ = 0;
  std::unique_ptr<Graph> scratch_ = std::make_unique<Graph>();
  int64_t forward_count_ = 0;
  std::map<TensorKey, Tensor> original_;                 // scratch tensor -> body tensor
  std::map<TensorKey, std::vector<std::string>> names_;  // of body tensors, by `named`
  std::vector<Tensor> cotangent_inputs_;                 // scratch
  std::vector<Tensor> gradients_;                        // scratch, per body input
  std::vector<Tensor> kept_;                             // body
  std::vector<Tensor> kept_scratch_;                     // the same values in scratch
  std::map<TensorKey, bool> visited_;
};

/// Makes a tensor of the body an additional result of its node; once per tensor.
Tensor export_from(Node& node, Body& body, Tensor inside, bool stacked);

/// x moved to host memory (`pinned_host`) or to device memory, if the device has both.
Tensor place(Tensor x, bool on_host);

}  // namespace kinema
