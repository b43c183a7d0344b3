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

/// The inside of a loop, a call or a manual region; the attributes of kScan, kCall and kManual hold
/// one as `std::shared_ptr<Body>`.
///
/// Its inputs are the node's inputs in order: carry, slices of the xs, captures.
struct Body {
  std::unique_ptr<Graph> graph;
  /// Carry, then ys (a call has only ys), then what backward passes have added.
  std::vector<Tensor> outputs;
  RematPolicy remat;
  int64_t length = 1;
  int64_t first = 0;  // ScanPart::first
  bool reverse = false;
  size_t carries = 0;
  size_t xs = 0;
  std::map<size_t, size_t> in_place;  // ScanOptions::in_place
  /// Results added for a backward pass, by the body's tensor.
  std::map<TensorKey, int64_t> exported;
  /// Calls made by `fused`: the name and settings that a target's kernel goes by. Manual regions:
  /// their ManualAttrs.
  std::string kernel;
  std::any settings;
  /// Calls made by `with_gradient`: their backward pass.
  GradientRule rule;
  /// Of these: remat policies take it for a dot without batch axes.
  bool is_product = false;
};

extern const Op kScan;
extern const Op kCall;
extern const Op kManual;

/// How many devices run a manual region's body, each on its parts.
int64_t devices_of(const Body& manual_region);

/// kScan's emission (scan_emit.cpp).
void emit_scan(const Node& node, Emitter& out);

/// Copies nodes between graphs, with everything they need.
class Transplant {
 public:
  explicit Transplant(Graph& target) : target_(target) {}

  /// `source` already exists in the target (or in a graph around it) as `in_target`.
  void know(Tensor source, Tensor in_target) { known_[key_of(source)] = in_target; }
  Tensor operator()(Tensor source);
  const std::map<TensorKey, Tensor>& known() const { return known_; }

 private:
  void copy(Node& node);

  Graph& target_;
  std::map<TensorKey, Tensor> known_;
};

/// The backward pass of a body: differentiated in a scratch copy, then split into what the forward
/// pass must keep and what is computed again.
class BodyGradient {
 public:
  /// `has_cotangent[i]`: output i gets a cotangent. `wanted[j]`: the gradient of input j is asked
  /// for.
  BodyGradient(const Body& body, const std::vector<bool>& has_cotangent,
               const std::vector<bool>& wanted);

  /// Tensors of the body (inputs among them) whose values the backward pass reads.
  const std::vector<Tensor>& kept() const { return kept_; }
  /// True when the policy wants this kept value in host memory.
  bool offloads(Tensor kept) const;
  /// True where input j of the body got a gradient.
  bool has_gradient(size_t input) const { return static_cast<bool>(gradients_[input]); }

  /// Writes the backward pass into `target`: `value(t)` stands for kept tensor t; `cotangents` are
  /// in order of the outputs that have one. Returns a gradient per input, empty where there is
  /// none.
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

/// x, kept in host memory (`pinned_host`) or back on the device, where the device has both.
Tensor place(Tensor x, bool on_host);

}  // namespace kinema
