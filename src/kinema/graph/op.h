#pragma once

#include <any>
#include <concepts>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/tensor.h"

namespace kinema {

class Emitter;

/// Gradients of the inputs of a node, in their order; an empty Tensor where there is none.
using Cotangents = std::vector<Tensor>;

/// How an op passes gradients back; written with the op, from the public ops.
class Gradient {
 public:
  using Vjp = Cotangents (*)(Tensor y, Tensor dy);
  /// For ops with several results: `dys[i]` is empty where result i got no cotangent; `wanted[i]`
  /// tells whether anybody asks for the gradient of input i.
  using MultiVjp = Cotangents (*)(Node& node, std::span<const Tensor> dys,
                                  const std::vector<bool>& wanted);

  template <std::convertible_to<Vjp> F>
  constexpr Gradient(F vjp) : vjp_(vjp) {}  // NOLINT(google-explicit-constructor)
  template <std::convertible_to<MultiVjp> F>
  constexpr Gradient(F vjp) : multi_(vjp) {}  // NOLINT(google-explicit-constructor)
  /// For ops whose result does not depend smoothly on any input.
  static constexpr Gradient none() { return Gradient(); }

  bool exists() const { return vjp_ != nullptr || multi_ != nullptr; }
  Cotangents operator()(Node& node, std::span<const Tensor> dys,
                        const std::vector<bool>& wanted) const;

 private:
  constexpr Gradient() = default;
  Vjp vjp_ = nullptr;
  MultiVjp multi_ = nullptr;
};

/// Everything that is known of one primitive, in one place; aggregates only, one constant per op.
///
/// The gradient has no default: leaving it out does not compile.
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
  /// For ops with regions or with more than one line.
  void (*emit)(const Node& node, Emitter& out) = nullptr;
  /// The backward pass may compute it again where that keeps less in memory: reshapes and
  /// arithmetic, which compilers fuse into their readers; not products, reductions, transcendental
  /// functions.
  bool free_to_recompute = false;
};

/// One operation in a Graph's arena.
struct Node {
  const Op* op = nullptr;
  Graph* graph = nullptr;
  /// Position in the graph: inputs come before their users.
  int64_t id = 0;
  std::vector<Tensor> inputs;
  std::vector<Shape> results;
  std::any attrs;
  /// Model path, `blocks/attn1/to_q`; interned by the graph.
  const std::string* scope = nullptr;

  Tensor result(int64_t i = 0) { return {this, i}; }
  Tensor input(size_t i) const { return inputs[i]; }
  const Shape& shape(size_t i) const { return inputs[i].shape(); }
  /// The op's typed attributes.
  template <typename T>
  const T& get() const {
    return *std::any_cast<T>(&attrs);
  }
};

}  // namespace kinema
