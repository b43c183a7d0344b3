#include "kinema/graph/graph.h"

#include <algorithm>

#include "kinema/core/error.h"

namespace kinema {

Graph& Tensor::graph() const {
  check(node_ != nullptr, "[graph] an empty tensor belongs to no graph");
  return *node_->graph;
}

const Shape& Tensor::shape() const {
  check(node_ != nullptr, "[graph] an empty tensor has no shape");
  return node_->results[static_cast<size_t>(result_)];
}

// A program argument; bound to a name before any node is written.
constinit const Op kInput{
    .name = "input",
    .infer = nullptr,
    .gradient = Gradient::none(),
};

Cotangents Gradient::operator()(Node& node, std::span<const Tensor> dys,
                                const std::vector<bool>& wanted) const {
  if (multi_ != nullptr) {
    return multi_(node, dys, wanted);
  }
  return vjp_(node.result(), dys[0]);
}

Node& Graph::append(const Op& op, std::vector<Tensor> inputs, std::any attrs) {
  for (Tensor& x : inputs) {
    check(static_cast<bool>(x), "[{}] an operand is empty", op.name);
    x = capture(x);
  }
  Node& node = nodes_.emplace_back();
  node.op = &op;
  node.graph = this;
  node.id = static_cast<int64_t>(nodes_.size()) - 1;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.scope = &*scopes_.insert(scope_).first;
  return node;
}

Tensor Graph::input(Shape shape, std::string name, Sharding sharding, Memory memory) {
  check(captures_.empty(), "[graph] input `{}` was declared after a capture", name);
  check(sharding.dims.empty() || sharding.dims.size() == shape.dims.size(),
        "[graph] input `{}` is {} but its sharding has {} axes", name, to_string(shape),
        sharding.dims.size());
  checked_elements(shape.dims);
  Node& node = append(kInput, {},
                      InputAttrs{static_cast<int64_t>(inputs_.size()), std::move(name),
                                 std::move(sharding), memory});
  node.results.push_back(std::move(shape));
  inputs_.push_back(node.result());
  return node.result();
}

Tensor Graph::add(const Op& op, std::vector<Tensor> inputs, std::any attrs) {
  Node& node = append(op, std::move(inputs), std::move(attrs));
  try {
    node.results.push_back(op.infer(node));
  } catch (const Error& error) {
    nodes_.pop_back();
    if (scope_.empty()) {
      throw;
    }
    fail("{} (in {})", error.what(), scope_);
  }
  return node.result();
}

Node& Graph::add_multi(const Op& op, std::vector<Tensor> inputs, std::any attrs,
                       std::vector<Shape> results) {
  Node& node = append(op, std::move(inputs), std::move(attrs));
  node.results = std::move(results);
  return node;
}

Tensor Graph::capture(Tensor outer) {
  if (&outer.graph() == this) {
    return outer;
  }
  check(parent_ != nullptr, "[graph] a tensor {} belongs to another graph",
        to_string(outer.shape()));
  outer = parent_->capture(outer);
  const auto key = std::make_pair(const_cast<const Node*>(&outer.node()), outer.result());
  if (const auto found = captured_.find(key); found != captured_.end()) {
    return found->second;
  }
  Node& node = append(kInput, {}, InputAttrs{static_cast<int64_t>(inputs_.size()), "", {}, {}});
  node.results.push_back(outer.shape());
  inputs_.push_back(node.result());
  captures_.push_back(outer);
  captured_.emplace(key, node.result());
  return node.result();
}

Graph::Scope::Scope(Graph& graph, std::string_view name) : graph_(graph), outer_(graph.scope_) {
  if (!graph_.scope_.empty()) {
    graph_.scope_ += '/';
  }
  graph_.scope_ += name;
}

Graph::Scope::~Scope() { graph_.scope_ = std::move(outer_); }

Graph& innermost(std::span<const Tensor> operands) {
  check(!operands.empty(), "[graph] an operation without operands does not name its graph");
  for (const Tensor x : operands) {
    check(static_cast<bool>(x), "[graph] an operand is empty");
  }
  return std::ranges::max_element(operands, {}, [](Tensor x) { return x.graph().depth(); })
      ->graph();
}

Tensor apply(const Op& op, std::vector<Tensor> inputs, std::any attrs) {
  Graph& graph = innermost(inputs);
  return graph.add(op, std::move(inputs), std::move(attrs));
}

}  // namespace kinema
