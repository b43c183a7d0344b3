#include "kinema/graph/body.h"

#include <algorithm>
#include <array>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/min_cut.h"
#include "kinema/graph/ops/attrs.h"

namespace kinema {
namespace {

using BodyAttr = std::shared_ptr<Body>;

/// A deep copy, so that a backward pass that adds results to one does not change the other.
BodyAttr clone(const Body& body, Graph& parent) {
  auto copy = std::make_shared<Body>();
  copy->graph = std::make_unique<Graph>(&parent);
  copy->remat = body.remat;
  copy->length = body.length;
  copy->first = body.first;
  copy->reverse = body.reverse;
  copy->carries = body.carries;
  copy->xs = body.xs;
  copy->in_place = body.in_place;
  copy->kernel = body.kernel;
  copy->settings = body.settings;
  copy->rule = body.rule;
  copy->is_product = body.is_product;
  GraphCopy copier(*copy->graph);
  for (const Tensor x : body.graph->inputs()) {
    copier.add_mapping(x, copy->graph->input(x.shape()));
  }
  for (const Tensor x : body.outputs) {
    copy->outputs.push_back(copier(x));
  }
  for (const auto& [key, result] : body.exported) {
    copy->exported[key_of(copy->outputs[static_cast<size_t>(result)])] = result;
  }
  return copy;
}

bool is_product(const Node& node) {
  if (node.op == &kDotGeneral) {
    return node.get<DotAttrs>().dims.lhs_batch.empty();
  }
  const auto* body = std::any_cast<BodyAttr>(&node.attrs);
  return body != nullptr && (*body)->is_product;
}

}  // namespace

Tensor GraphCopy::operator()(Tensor source) {
  if (const auto found = known_.find(key_of(source)); found != known_.end()) {
    return found->second;
  }
  // Collect, then copy in creation order. Not recursive, because chains may be long.
  std::map<int64_t, Node*> pending{{source.node().id, &source.node()}};
  std::vector<Node*> stack{&source.node()};
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    for (const Tensor x : node->inputs) {
      if (!known_.contains(key_of(x)) && pending.emplace(x.node().id, &x.node()).second) {
        stack.push_back(&x.node());
      }
    }
  }
  for (const auto& [id, node] : pending) {
    copy(*node);
  }
  return known_.at(key_of(source));
}

void GraphCopy::copy(Node& node) {
  check(node.op != &kInput, "[graph] an input has no counterpart in the graph it is copied to");
  std::vector<Tensor> inputs;
  for (const Tensor x : node.inputs) {
    inputs.push_back(known_.at(key_of(x)));
  }
  std::any attrs = node.attrs;
  if (const auto* body = std::any_cast<BodyAttr>(&node.attrs)) {
    attrs = clone(**body, target_);
  }
  const std::string outer = target_.scope_path();
  target_.set_scope_path(*node.scope);
  Node& copied = target_.add_multi(*node.op, std::move(inputs), std::move(attrs), node.results);
  target_.set_scope_path(outer);
  for (size_t i = 0; i < node.results.size(); ++i) {
    // A kept value may be one result of a node whose other results are copied.
    known_.emplace(key_of(node.result(static_cast<int64_t>(i))),
                   copied.result(static_cast<int64_t>(i)));
  }
}

BodyGradient::BodyGradient(const Body& body, const std::vector<bool>& has_cotangent,
                           const std::vector<bool>& wanted)
    : policy_(body.remat), carries_(static_cast<int64_t>(body.carries)) {
  GraphCopy copier(*scratch_);
  std::vector<Tensor> inputs;
  for (const Tensor x : body.graph->inputs()) {
    inputs.push_back(scratch_->input(x.shape()));
    copier.add_mapping(x, inputs.back());
  }
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    if (has_cotangent[i]) {
      outputs.push_back(copier(body.outputs[i]));
    }
  }
  for (const auto& [key, copied] : copier.known()) {
    original_[key_of(copied)] = Tensor(const_cast<Node*>(key.first), key.second);
  }
  collect_names();
  forward_count_ = static_cast<int64_t>(scratch_->nodes().size());
  for (const Tensor y : outputs) {
    cotangent_inputs_.push_back(scratch_->input(y.shape()));
  }
  std::vector<Tensor> wrt;
  for (size_t j = 0; j < inputs.size(); ++j) {
    if (wanted[j]) {
      wrt.push_back(inputs[j]);
    }
  }
  const std::vector<Tensor> found = pull_back(outputs, cotangent_inputs_, wrt);
  gradients_.resize(inputs.size());
  for (size_t j = 0, next = 0; j < inputs.size(); ++j) {
    if (wanted[j]) {
      gradients_[j] = found[next++];
    }
  }
  keep_what_gradients_read();
}

// A name belongs to the value, not to the identity node that carries it: gradient rules read the
// value itself (tanh's result, for example), so the policy keeps that. A reshape is the same value.
// A call with its own rule needs all of its results for the gradient, so a name on one keeps them
// all: with an attention's output alone, attention would still be computed again.
void BodyGradient::collect_names() {
  for (const auto& [key, original] : original_) {
    const Node& node = original.node();
    if (node.op == &kNamed) {
      Tensor value = node.input(0);
      while (value.node().op == &kNamed || value.node().op == &kReshape) {
        value = value.node().input(0);
      }
      const auto* body = std::any_cast<BodyAttr>(&value.node().attrs);
      const bool together = body != nullptr && (*body)->rule;
      for (int64_t i = 0; i < static_cast<int64_t>(value.node().results.size()); ++i) {
        if (together || i == value.result()) {
          names_[key_of(value.node().result(i))].push_back(node.get<NamedAttrs>().name);
        }
      }
    }
  }
}

bool BodyGradient::has_name(Tensor kept, const std::vector<std::string>& names) const {
  const auto found = names_.find(key_of(kept));
  return found != names_.end() && std::ranges::any_of(found->second, [&](const std::string& name) {
           return std::ranges::find(names, name) != names.end();
         });
}

void BodyGradient::keep_what_gradients_read() {
  std::vector<Tensor> reads;
  std::vector<bool> needed(scratch_->nodes().size(), false);
  const auto need = [&](Tensor x) {
    if (x.node().id < forward_count_) {
      reads.push_back(x);
    } else {
      needed[x.node().id] = true;
    }
  };
  for (const Tensor g : gradients_) {
    if (g) {
      need(g);
    }
  }
  for (int64_t id = static_cast<int64_t>(needed.size()) - 1; id >= forward_count_; --id) {
    if (needed[id]) {
      std::ranges::for_each(scratch_->nodes()[id].inputs, need);
    }
  }
  if (policy_.kind == RematPolicy::Kind::NONE) {
    keep_fewest_bytes(reads);
    return;
  }
  for (const Tensor x : reads) {
    keep(x);
  }
}

// Without a policy, nothing expensive is computed twice: products, reductions and transcendental
// functions are kept or are needed only for kept values. Between them is arithmetic, which
// compilers fuse with its consumers. The cheapest values to keep are a minimum cut between the
// values that exist anyway (sources) and those that the gradient rules read (the sink).
void BodyGradient::keep_fewest_bytes(std::span<const Tensor> reads) {
  constexpr size_t kSource = 0;
  constexpr size_t kSink = 1;
  constexpr int64_t kPerTensor = 256;  // prefers fewer tensors for about equal bytes
  MinCut network(2);
  // A tensor is an edge; keeping it cuts the edge.
  std::map<TensorKey, std::pair<size_t, size_t>> ends;
  std::vector<Tensor> stack;
  const auto enter = [&](Tensor x) {
    const auto [found, is_new] = ends.try_emplace(key_of(x));
    if (is_new) {
      found->second = {network.add_node(), network.add_node()};
      stack.push_back(x);
    }
    return found->second;
  };
  for (const Tensor x : reads) {
    network.add_edge(enter(x).second, kSink, MinCut::kInfinite);
  }
  std::map<int64_t, std::vector<Tensor>> in_order;
  while (!stack.empty()) {
    const Tensor x = stack.back();
    stack.pop_back();
    in_order[x.node().id].push_back(x);
    const auto [in, out] = enter(x);
    const Node& node = x.node();
    const bool keepable = original_.contains(key_of(x));
    int64_t cost = keepable ? x.shape().bytes() + kPerTensor : MinCut::kInfinite;
    if (node.op == &kInput && node.get<InputAttrs>().index >= carries_) {
      cost = 0;  // slices of the xs and captures exist already
    }
    network.add_edge(in, out, cost);
    if (node.op == &kInput || (keepable && !node.inputs.empty() && !node.op->free_to_recompute)) {
      network.add_edge(kSource, in, MinCut::kInfinite);
      continue;
    }
    for (const Tensor input : node.inputs) {
      network.add_edge(enter(input).second, in, MinCut::kInfinite);
    }
  }
  const std::vector<bool> recomputed = network.sink_side(kSource, kSink);
  for (const auto& [id, results] : in_order) {
    for (const Tensor x : results) {
      const auto [in, out] = ends.at(key_of(x));
      if (!recomputed[in] && recomputed[out]) {
        kept_.push_back(original_.at(key_of(x)));
        kept_scratch_.push_back(x);
      }
    }
  }
}

void BodyGradient::keep(Tensor scratch) {
  std::vector<Tensor> stack{scratch};
  while (!stack.empty()) {
    const Tensor x = stack.back();
    stack.pop_back();
    if (!visited_.emplace(key_of(x), true).second) {
      continue;
    }
    const Node& node = x.node();
    if (node.op == &kInput || saves(x)) {
      kept_.push_back(original_.at(key_of(x)));
      kept_scratch_.push_back(x);
    } else {
      stack.insert(stack.end(), node.inputs.begin(), node.inputs.end());
    }
  }
}

bool BodyGradient::saves(Tensor x) const {
  const Node& node = x.node();
  if (node.inputs.empty() || !original_.contains(key_of(x))) {
    return false;  // constants; results that only the scratch copy of a nested loop has
  }
  switch (policy_.kind) {
    case RematPolicy::Kind::FULL:
      return false;
    case RematPolicy::Kind::MATMUL_WITHOUT_BATCH:
    case RematPolicy::Kind::FLUX_OPTIMIZED:
      return is_product(node);
    case RematPolicy::Kind::CUSTOM: {
      const Tensor original = original_.at(key_of(x));
      return has_name(original, policy_.saved) || has_name(original, policy_.offloaded);
    }
    case RematPolicy::Kind::NONE:
      break;
  }
  return true;
}

bool BodyGradient::offloads(Tensor kept) const {
  if (policy_.kind == RematPolicy::Kind::MATMUL_WITHOUT_BATCH) {
    return policy_.offload && is_product(kept.node());
  }
  return policy_.kind == RematPolicy::Kind::CUSTOM && has_name(kept, policy_.offloaded);
}

std::vector<Tensor> BodyGradient::build(Graph& target,
                                        const std::function<Tensor(Tensor kept)>& value,
                                        std::span<const Tensor> cotangents) const {
  GraphCopy copier(target);
  for (size_t i = 0; i < kept_.size(); ++i) {
    copier.add_mapping(kept_scratch_[i], value(kept_[i]));
  }
  for (size_t i = 0; i < cotangents.size(); ++i) {
    copier.add_mapping(cotangent_inputs_[i], cotangents[i]);
  }
  std::vector<Tensor> results;
  for (const Tensor g : gradients_) {
    results.push_back(g ? copier(g) : Tensor());
  }
  return results;
}

Tensor export_from(Node& node, Body& body, Tensor inside, bool stacked) {
  if (const auto found = body.exported.find(key_of(inside)); found != body.exported.end()) {
    return node.result(found->second);
  }
  Shape shape = inside.shape();
  if (stacked) {
    shape.dims.insert(shape.dims.begin(), body.length);
  }
  const auto index = static_cast<int64_t>(node.results.size());
  body.outputs.push_back(inside);
  body.exported[key_of(inside)] = index;
  node.results.push_back(std::move(shape));
  return node.result(index);
}

// y = x in another memory,  dx = dy
constinit const Op kPlace{
    .name = "place",
    .infer = [](const Node& node) -> Shape { return node.shape(0); },
    .gradient = [](Tensor, Tensor dy) -> Cotangents { return {dy}; },
    .emit =
        [](const Node& node, Emitter& out) {
          if (!out.options().host_offload) {
            out.bind(const_cast<Node&>(node).result(), out.name(node.input(0)));
            return;
          }
          out.bind(const_cast<Node&>(node).result(),
                   out.move(out.name(node.input(0)), node.shape(0), node.get<bool>()));
        },
    .free_to_recompute = true,
};

Tensor place(Tensor x, bool on_host) { return apply(kPlace, {x}, on_host); }
Tensor fetch(Tensor x) { return place(x, /*on_host=*/false); }
Tensor offload(Tensor x) { return place(x, /*on_host=*/true); }

}  // namespace kinema
