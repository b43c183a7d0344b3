#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/graph/op.h"
#include "kinema/graph/tensor.h"

namespace kinema {

/// Mesh axes over which each dimension of a tensor is sharded, in Shardy's form; empty =
/// replicated.
struct Sharding {
  /// One list of mesh axis names per dimension, major first.
  std::vector<std::vector<std::string>> dims;
  bool operator==(const Sharding&) const = default;
};

/// A device mesh: axis names and sizes, major first; devices are numbered row by row. Empty = one
/// device.
struct MeshAxes {
  std::vector<std::pair<std::string, int64_t>> axes;
  bool operator==(const MeshAxes&) const = default;
};

/// Memory of a program argument, on devices that can address host memory in addition to their own
/// (other devices have one memory).
enum class Memory : uint8_t {
  DEVICE,
  /// Pinned host memory. If it is a stack that a loop iterates over, each step fetches its slice;
  /// otherwise `fetch` copies all of it.
  HOST,
  /// The same, but a loop fetches the next step's slice during a step, so that two are on the
  /// device.
  STREAMED,
};

/// An arena of nodes in creation order. Not movable, because nodes and tensors point into it.
///
/// A graph with a parent is the body of a loop or a call; tensors of the parent used in it are
/// captured as additional inputs.
class Graph {
 public:
  Graph() = default;
  explicit Graph(Graph* parent) : parent_(parent) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// An argument of the program, in order of creation. `name` shows in the emitted text.
  Tensor input(Shape shape, std::string name = "", Sharding sharding = {},
               Memory memory = Memory::DEVICE);

  /// Appends a node; inputs of an enclosing graph are captured. Errors of the op's `infer` are
  /// rethrown with the model path in front.
  Tensor add(const Op& op, std::vector<Tensor> inputs, std::any attrs = {});
  /// The same for ops with several results, of the given shapes.
  Node& add_multi(const Op& op, std::vector<Tensor> inputs, std::any attrs,
                  std::vector<Shape> results);

  /// This graph's capture of a tensor of an enclosing graph (the tensor itself if it belongs to
  /// this graph).
  Tensor capture(Tensor outer);

  std::deque<Node>& nodes() { return nodes_; }
  const std::deque<Node>& nodes() const { return nodes_; }
  /// Declared inputs followed, for bodies, by captures in order of first use.
  std::span<const Tensor> inputs() const { return inputs_; }
  /// Outer tensors of the last `captures().size()` inputs.
  std::span<const Tensor> captures() const { return captures_; }
  Graph* parent() const { return parent_; }
  int64_t depth() const { return parent_ == nullptr ? 0 : parent_->depth() + 1; }

  /// Appends to the model path during its lifetime: `Scope scope(graph, "attn1");`.
  class Scope {
   public:
    Scope(Graph& graph, std::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Graph& graph_;
    std::string outer_;
  };
  const std::string& scope_path() const { return scope_; }
  void set_scope_path(std::string path) { scope_ = std::move(path); }

 private:
  Node& append(const Op& op, std::vector<Tensor> inputs, std::any attrs);

  Graph* parent_ = nullptr;
  std::deque<Node> nodes_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> captures_;
  std::map<std::pair<const Node*, int64_t>, Tensor> captured_;
  std::set<std::string> scopes_;
  std::string scope_ = parent_ != nullptr ? parent_->scope_path() : "";
};

using Scope = Graph::Scope;

/// Attributes of an input node.
struct InputAttrs {
  int64_t index;
  std::string name;
  Sharding sharding;
  Memory memory = Memory::DEVICE;
};

/// The op of Graph::input.
extern const Op kInput;

/// The deepest graph among the operands' graphs, all of which must be on one chain of parents.
Graph& innermost(std::span<const Tensor> operands);

/// Adds a node to the innermost graph of its operands.
Tensor apply(const Op& op, std::vector<Tensor> inputs, std::any attrs = {});

}  // namespace kinema
