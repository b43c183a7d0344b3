#include "kinema/graph/autodiff.h"

#include <algorithm>
#include <map>

#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"

namespace kinema {
namespace {

// Terms. Root: an output that has a cotangent. Included: a root depends on it. Useful: it depends
// on a tensor of `wrt`. Only nodes that are both pass cotangents back, so integer branches cost
// nothing.

using Key = std::pair<const Node*, int64_t>;
Key key(Tensor x) { return {&x.node(), x.result()}; }

std::vector<bool> included_nodes(std::span<const Tensor> roots, int64_t count) {
  std::vector<bool> included(static_cast<size_t>(count), false);
  Graph* graph = nullptr;
  for (const Tensor root : roots) {
    included[root.node().id] = true;
    graph = &root.graph();
  }
  for (int64_t id = count - 1; id >= 0; --id) {
    if (included[id]) {
      for (const Tensor x : graph->nodes()[id].inputs) {
        included[x.node().id] = true;
      }
    }
  }
  return included;
}

std::vector<bool> useful_nodes(Graph& graph, std::span<const Tensor> wrt, int64_t count) {
  std::vector<bool> useful(static_cast<size_t>(count), false);
  for (const Tensor x : wrt) {
    if (x.node().id < count) {
      useful[x.node().id] = true;
    }
  }
  for (int64_t id = 0; id < count; ++id) {
    const Node& node = graph.nodes()[id];
    useful[id] = useful[id] ||
                 std::ranges::any_of(node.inputs, [&](Tensor x) { return useful[x.node().id]; });
  }
  return useful;
}

/// The sums of the cotangents so far.
class Sums {
 public:
  void add(Tensor x, Tensor dx, const char* op) {
    check(dx.shape() == x.shape(),
          "[autodiff] the gradient rule of `{}` gives {} for an input that is {}", op,
          to_string(dx.shape()), to_string(x.shape()));
    Tensor& sum = sums_[key(x)];
    sum = sum ? sum + dx : dx;
  }
  Tensor get(Tensor x) const {
    const auto found = sums_.find(key(x));
    return found == sums_.end() ? Tensor() : found->second;
  }

 private:
  std::map<Key, Tensor> sums_;
};

void pass_back(Node& node, const std::vector<bool>& useful, Sums& sums) {
  std::vector<Tensor> dys;
  for (size_t i = 0; i < node.results.size(); ++i) {
    dys.push_back(sums.get(node.result(static_cast<int64_t>(i))));
  }
  if (std::ranges::none_of(dys, [](Tensor dy) { return static_cast<bool>(dy); })) {
    return;
  }
  std::vector<bool> wanted;
  for (const Tensor x : node.inputs) {
    wanted.push_back(is_float(x.dtype()) && useful[x.node().id]);
  }
  if (!node.op->gradient.exists() || std::ranges::find(wanted, true) == wanted.end()) {
    return;
  }
  const std::string forward = *node.scope;
  const std::string outer = node.graph->scope_path();
  node.graph->set_scope_path(forward.starts_with("grad/") ? forward : "grad/" + forward);
  const std::vector<Tensor> inputs = node.inputs;  // the rule may add to the node
  const Cotangents dxs = node.op->gradient(node, dys, wanted);
  check(dxs.size() == inputs.size(),
        "[autodiff] the gradient rule of `{}` gives {} of {} gradients", node.op->name, dxs.size(),
        inputs.size());
  for (size_t i = 0; i < dxs.size(); ++i) {
    if (dxs[i] && wanted[i]) {
      sums.add(inputs[i], dxs[i], node.op->name);
    }
  }
  node.graph->set_scope_path(outer);
}

}  // namespace

std::vector<Tensor> pull_back(std::span<const Tensor> outputs, std::span<const Tensor> cotangents,
                              std::span<const Tensor> wrt) {
  check(outputs.size() == cotangents.size(), "[autodiff] {} outputs but {} cotangents",
        outputs.size(), cotangents.size());
  Sums sums;
  std::vector<Tensor> roots;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (cotangents[i]) {
      roots.push_back(outputs[i]);
      sums.add(outputs[i], cotangents[i], "output");
    }
  }
  std::vector<Tensor> results(wrt.size());
  if (roots.empty()) {
    return results;
  }
  Graph& graph = roots[0].graph();
  std::vector<Tensor> inside;
  for (const Tensor x : roots) {
    check(&x.graph() == &graph, "[autodiff] the outputs belong to different graphs");
  }
  for (const Tensor x : wrt) {
    inside.push_back(graph.capture(x));
  }
  const int64_t count =
      1 + std::ranges::max_element(roots, {}, [](Tensor x) { return x.node().id; })->node().id;
  const std::vector<bool> included = included_nodes(roots, count);
  const std::vector<bool> useful = useful_nodes(graph, inside, count);
  for (int64_t id = count - 1; id >= 0; --id) {
    if (included[id] && useful[id]) {
      pass_back(graph.nodes()[id], useful, sums);
    }
  }
  for (size_t i = 0; i < wrt.size(); ++i) {
    results[i] = sums.get(inside[i]);
  }
  return results;
}

std::vector<Tensor> gradients(Tensor loss, std::span<const Tensor> wrt) {
  check(loss.rank() == 0 && is_float(loss.dtype()),
        "[gradients] the loss is {} but must be a floating-point scalar", to_string(loss.shape()));
  for (const Tensor x : wrt) {
    check(is_float(x.dtype()), "[gradients] a tensor of {} has no gradient", to_string(x.shape()));
  }
  const std::vector<Tensor> seed{ones_like(loss)};
  std::vector<Tensor> results = pull_back(std::vector<Tensor>{loss}, seed, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (!results[i]) {
      results[i] = zeros_like(wrt[i]);
    }
  }
  return results;
}

}  // namespace kinema
