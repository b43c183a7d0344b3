// Calls: a body that is inlined in place, as a unit for the backward pass (`checkpoint`,
// `with_gradient`) or for a target's kernel (`fused`).
#include <algorithm>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/body.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/scan.h"

namespace kinema {
namespace {

void emit_call(const Node& node, Emitter& out) {
  const Body& body = *node.get<std::shared_ptr<Body>>();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    out.bind(body.graph->inputs()[i], out.name(node.input(i)));
  }
  // Only results that are read: a kernel inside may then omit the others.
  std::vector<Tensor> results;
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < node.results.size(); ++i) {
    const Tensor result = const_cast<Node&>(node).result(static_cast<int64_t>(i));
    if (out.uses(result) > 0) {
      results.push_back(result);
      outputs.push_back(body.outputs[i]);
    }
  }
  out.body(*body.graph, outputs);
  for (size_t i = 0; i < results.size(); ++i) {
    out.bind(results[i], out.name(outputs[i]));
  }
}

/// The gradient by the call's own rule.
Cotangents ruled_gradient(Node& node, const Body& body, std::span<const Tensor> dys) {
  std::vector<Tensor> ys;
  for (size_t i = 0; i < node.results.size(); ++i) {
    ys.push_back(node.result(static_cast<int64_t>(i)));
  }
  const std::vector<Tensor> inputs = node.inputs;
  return body.rule(inputs, ys, dys);
}

Cotangents call_gradient(Node& node, std::span<const Tensor> dys, const std::vector<bool>& wanted) {
  Body& body = *node.get<std::shared_ptr<Body>>();
  if (body.rule) {
    return ruled_gradient(node, body, dys);
  }
  std::vector<bool> has_cotangent;
  std::vector<Tensor> barrier_outputs;
  for (const Tensor dy : dys) {
    has_cotangent.push_back(static_cast<bool>(dy));
    if (dy) {
      barrier_outputs.push_back(dy);
    }
  }
  const size_t cotangents = barrier_outputs.size();
  const BodyGradient gradient(body, has_cotangent, wanted);
  std::map<TensorKey, size_t> behind_barrier;
  std::map<TensorKey, Tensor> values;
  const auto inputs = body.graph->inputs();
  for (const Tensor inside : gradient.kept()) {
    const auto found = std::ranges::find(inputs, inside);
    Tensor outer;
    if (found != inputs.end()) {
      outer = node.input(static_cast<size_t>(found - inputs.begin()));
    } else {
      const bool on_host = gradient.offloads(inside);
      outer = export_from(node, body, on_host ? place(inside, true) : inside, false);
      outer = on_host ? place(outer, false) : outer;
    }
    if (outer.node().op == &kInput) {
      // A parameter: the barrier on activations is enough against CSE.
      values[key_of(inside)] = outer;
    } else {
      behind_barrier[key_of(inside)] = barrier_outputs.size();
      barrier_outputs.push_back(outer);
    }
  }
  // One barrier for cotangents and kept values: recomputation can neither merge with the forward
  // pass nor start before its cotangent is available.
  barrier_outputs = optimization_barrier(barrier_outputs);
  const auto value = [&](Tensor inside) {
    const auto found = behind_barrier.find(key_of(inside));
    return found != behind_barrier.end() ? barrier_outputs[found->second]
                                         : values.at(key_of(inside));
  };
  return gradient.build(*node.graph, value, std::span(barrier_outputs).first(cotangents));
}

}  // namespace

// ys = body(inputs), inlined
constinit const Op kCall{
    .name = "call", .infer = nullptr, .gradient = call_gradient, .emit = emit_call};

namespace {

std::vector<Tensor> call(const std::shared_ptr<Body>& inside, std::vector<Tensor> inputs,
                         const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body) {
  Graph& parent = innermost(inputs);
  inside->graph = std::make_unique<Graph>(&parent);
  std::vector<Tensor> arguments;
  for (const Tensor x : inputs) {
    arguments.push_back(inside->graph->input(x.shape()));
  }
  std::vector<Shape> results;
  for (const Tensor y : body(arguments)) {
    inside->outputs.push_back(inside->graph->capture(y));
    results.push_back(y.shape());
  }
  const auto captures = inside->graph->captures();
  inputs.insert(inputs.end(), captures.begin(), captures.end());
  Node& node = parent.add_multi(kCall, std::move(inputs), inside, std::move(results));
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < inside->outputs.size(); ++i) {
    outputs.push_back(node.result(static_cast<int64_t>(i)));
  }
  return outputs;
}

}  // namespace

std::vector<Tensor> checkpoint(
    std::vector<Tensor> inputs, RematPolicy policy,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body) {
  if (policy.kind == RematPolicy::Kind::NONE) {
    return body(inputs);
  }
  auto inside = std::make_shared<Body>();
  inside->remat = std::move(policy);
  return call(inside, std::move(inputs), body);
}

std::vector<Tensor> fused(std::string kernel, std::any settings, std::vector<Tensor> inputs,
                          const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body) {
  auto inside = std::make_shared<Body>();
  inside->remat = {.kind = RematPolicy::Kind::FULL};
  inside->kernel = std::move(kernel);
  inside->settings = std::move(settings);
  return call(inside, std::move(inputs), body);
}

std::vector<Tensor> with_gradient(
    std::vector<Tensor> inputs,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body, GradientRule rule,
    bool is_product) {
  auto inside = std::make_shared<Body>();
  inside->rule = std::move(rule);
  inside->is_product = is_product;
  std::vector<Tensor> outputs = call(inside, std::move(inputs), body);
  check(inside->graph->captures().empty(),
        "[with_gradient] the body uses a tensor that is not among its inputs, for which the rule "
        "gives no gradient");
  return outputs;
}

}  // namespace kinema
