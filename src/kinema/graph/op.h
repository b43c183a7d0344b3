#pragma once

#include <any>
#include <concepts>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/tensor.h"

namespace kinema {

class Emitter;

/// Gradients of a node's inputs, in their order; an empty Tensor for an input without a gradient.
using Cotangents = std::vector<Tensor>;

/// An op's gradient rule, built from the public ops.
class Gradient {
 public:
  using Vjp = Cotangents (*)(Tensor y, Tensor dy);
  /// For ops with several results: `dys[i]` is empty if result i has no cotangent; `wanted[i]` is
  /// true if the gradient of input i is needed.
  using MultiVjp = Cotangents (*)(Node& node, std::span<const Tensor> dys,
                                  const std::vector<bool>& wanted);

  template <std::convertible_to<Vjp> F>
  constexpr Gradient(F vjp) : vjp_(vjp) {}  // NOLINT(google-explicit-constructor)
  template <std::convertible_to<MultiVjp> F>
  constexpr Gradient(F vjp) : multi_(vjp) {}  // NOLINT(google-explicit-constructor)
  /// For ops whose result is piecewise constant in every input.
  static constexpr Gradient none() { return Gradient(); }

  bool exists() const { return vjp_ != nullptr || multi_ != nullptr; }
  Cotangents operator()(Node& node, std::span<const Tensor> dys,
                        const std::vector<bool>& wanted) const;

 private:
  constexpr Gradient() = default;
  Vjp vjp_ = nullptr;
  MultiVjp multi_ = nullptr;
};

/// The definition of one primitive; one constant per op, without virtual functions.
///
/// The gradient has no default: an op without one does not compile.
struct Op {
  /// Name in messages and tests.
  const char* name;
  /// Result shape from inputs and attributes; throws an Error that names the op and the shapes.
  Shape (*infer)(const Node& node);
  Gradient gradient;
  /// StableHLO operation, `stablehlo.add`; unused when `emit` is given.
  const char* mlir = nullptr;
  /// Attribute dictionary without braces, `dimension = 1 : i64`.
  std::string (*attributes)(const Node& node) = nullptr;
  /// For ops with regions or that are more than one line.
  void (*emit)(const Node& node, Emitter& out) = nullptr;
  /// The backward pass may compute it again if that saves memory: reshapes and arithmetic, which
  /// compilers fuse with their consumers. Not products, reductions and transcendental functions.
  bool free_to_recompute = false;
};

/// One operation in a Graph's arena.
struct Node {
  const Op* op = nullptr;
  Graph* graph = nullptr;
  /// Index in the graph: inputs come before their users.
  int64_t id = 0;
  std::vector<Tensor> inputs;
  std::vector<Shape> results;
  std::any attrs;
  /// Model path, `blocks/attn1/to_q`; interned by the graph.
  const std::string* scope = nullptr;

  Tensor result(int64_t i = 0) { return {this, i}; }
  Tensor input(size_t i) const { return inputs[i]; }
  const Shape& shape(size_t i) const { return inputs[i].shape(); }
  /// The op's attributes, as T.
  template <typename T>
  const T& get() const {
    return *std::any_cast<T>(&attrs);
  }
};

}  // namespace kinema
