#include "kinema/graph/watch.h"

#include <algorithm>
#include <set>

#include "kinema/core/error.h"
#include "kinema/graph/body.h"
#include "kinema/graph/ops.h"

namespace kinema {

namespace {

/// F32 [1]: 1 if x has a non-finite value.
Tensor flag(Tensor x) { return reshape(convert(logical_not(all(is_finite(x))), DType::F32), {1}); }

/// The result is a part or selection of the inputs: non-finite only if an input is.
bool only_moves(const Node& node) {
  static const std::set<std::string_view> names = {"abs",
                                                   "broadcast_in_dim",
                                                   "concatenate",
                                                   "convert",
                                                   "dynamic_slice",
                                                   "dynamic_update_slice",
                                                   "max",
                                                   "min",
                                                   "named",
                                                   "negate",
                                                   "optimization_barrier",
                                                   "pad",
                                                   "place",
                                                   "reshape",
                                                   "reverse",
                                                   "select",
                                                   "slice",
                                                   "stop_gradient",
                                                   "take",
                                                   "transpose",
                                                   "with_sharding"};
  return names.contains(node.op->name);
}

/// The body whose values are watched; null for kernels and manual regions.
std::shared_ptr<Body> body_of(const Node& node) {
  const auto* body = std::any_cast<std::shared_ptr<Body>>(&node.attrs);
  const bool open =
      body != nullptr && (node.op == &kScan || (node.op == &kCall && (*body)->kernel.empty()));
  return open ? *body : nullptr;
}

/// The path with the loop's step: blocks/attn1 -> blocks.3/attn1.
std::string with_step(const std::string& path, const std::string& loop, int64_t step,
                      int64_t length) {
  const std::string name = loop.substr(loop.rfind('/') + 1);
  for (size_t at = path.find(name); !name.empty() && at != std::string::npos;
       at = path.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || path[at - 1] == '/') && (end == path.size() || path[end] == '/')) {
      return path.substr(0, end) + "." + std::to_string(step) + path.substr(end);
    }
  }
  return fmt::format("{} (step {} of a loop of {})", path, step, length);
}

}  // namespace

/// One graph: the offsets of its flags among the flags of one execution.
struct Watch::Level {
  struct Inside {
    std::unique_ptr<Level> level;
    int64_t length = 1;
    bool reverse = false;
    size_t at = 0;
  };

  std::vector<Tensor> outputs;
  std::vector<Node*> nodes;  // that the outputs depend on and that depend on inputs, in order
  std::map<TensorKey, size_t> place;     // of each watched value
  std::map<const Node*, Inside> inside;  // of loops and calls
  size_t size = 0;
  Tensor flags;  // F32 [size]; empty when nothing is watched

  Level(Graph& graph, std::span<const Tensor> wanted, const std::vector<bool>& variable_inputs);

  std::optional<NonFinite> first(std::span<const float> values) const;

 private:
  void watch_inside(Node& node, const std::set<TensorKey>& used,
                    const std::set<const Node*>& variable, std::vector<Tensor>& parts);
  std::set<TensorKey> bad_values(std::span<const float> values) const;
  std::vector<Node*> origins(const std::set<TensorKey>& bad) const;
  NonFinite describe(Node& node, const std::set<TensorKey>& bad,
                     std::span<const float> values) const;
};

Watch::Level::Level(Graph& graph, std::span<const Tensor> wanted,
                    const std::vector<bool>& variable_inputs)
    : outputs(wanted.begin(), wanted.end()) {
  const size_t count = graph.nodes().size();
  std::set<TensorKey> used;
  std::vector<bool> needed(count, false);
  for (const Tensor x : outputs) {
    used.insert(key_of(x));
    needed[static_cast<size_t>(x.node().id)] = true;
  }
  for (size_t id = count; id-- > 0;) {
    for (const Tensor x : graph.nodes()[id].inputs) {
      if (needed[id]) {
        used.insert(key_of(x));
        needed[static_cast<size_t>(x.node().id)] = true;
      }
    }
  }
  // Values that do not depend on an input are constants such as masks and tables, whose infinities
  // are intended.
  std::set<const Node*> variable;
  std::vector<Tensor> parts;
  const std::string scope = graph.scope_path();
  for (size_t id = 0; id < count; ++id) {
    Node& node = graph.nodes()[id];
    const bool varies = node.op == &kInput
                            ? variable_inputs[static_cast<size_t>(node.get<InputAttrs>().index)]
                            : std::ranges::any_of(node.inputs, [&](Tensor x) {
                                return variable.contains(&x.node());
                              });
    if (!needed[id] || !varies) {
      continue;
    }
    variable.insert(&node);
    nodes.push_back(&node);
    graph.set_scope_path("watch");
    watch_inside(node, used, variable, parts);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Tensor result = node.result(static_cast<int64_t>(i));
      if (used.contains(key_of(result)) && is_float(result.dtype()) && !only_moves(node)) {
        place[key_of(result)] = size++;
        parts.push_back(flag(result));
      }
    }
  }
  if (!parts.empty()) {
    flags = concatenate(std::move(parts), Axis(0));
  }
  graph.set_scope_path(scope);
}

void Watch::Level::watch_inside(Node& node, const std::set<TensorKey>& used,
                                const std::set<const Node*>& variable, std::vector<Tensor>& parts) {
  const std::shared_ptr<Body> body = body_of(node);
  if (body == nullptr) {
    return;
  }
  const bool loop = node.op == &kScan;
  std::vector<Tensor> wanted;
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (loop || used.contains(key_of(node.result(static_cast<int64_t>(i))))) {
      wanted.push_back(body->outputs[i]);
    }
  }
  std::vector<bool> varies;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool by_step = i < body->carries + body->xs;
    varies.push_back(by_step || variable.contains(&node.inputs[i].node()));
  }
  Inside in{.level = std::make_unique<Level>(*body->graph, wanted, varies),
            .length = loop ? body->length : 1,
            .reverse = body->reverse,
            .at = size};
  if (!in.level->flags) {
    return;
  }
  const auto all = in.length * static_cast<int64_t>(in.level->size);
  parts.push_back(reshape(export_from(node, *body, in.level->flags, loop), {all}));
  size += static_cast<size_t>(all);
  inside[&node] = std::move(in);
}

std::set<TensorKey> Watch::Level::bad_values(std::span<const float> values) const {
  std::set<TensorKey> bad;
  for (Node* node : nodes) {
    for (size_t i = 0; i < node->results.size(); ++i) {
      const TensorKey key = key_of(node->result(static_cast<int64_t>(i)));
      bool is_bad = false;
      if (const auto flagged = place.find(key); flagged != place.end()) {
        is_bad = values[flagged->second] != 0.0F;
      } else if (only_moves(*node)) {
        // A barrier with several values passes on each separately.
        const bool wall = node->results.size() > 1;
        is_bad = wall ? bad.contains(key_of(node->inputs[i]))
                      : std::ranges::any_of(node->inputs,
                                            [&](Tensor x) { return bad.contains(key_of(x)); });
      }
      if (is_bad) {
        bad.insert(key);
      }
    }
  }
  return bad;
}

/// The nodes with a non-finite result and finite inputs that non-finite outputs depend on.
std::vector<Node*> Watch::Level::origins(const std::set<TensorKey>& bad) const {
  std::vector<Node*> stack;
  std::set<const Node*> seen;
  const auto visit = [&](Tensor x) {
    const bool is_bad = bad.contains(key_of(x));
    if (is_bad && seen.insert(&x.node()).second) {
      stack.push_back(&x.node());
    }
    return is_bad;
  };
  for (const Tensor x : outputs) {
    visit(x);
  }
  std::vector<Node*> out;
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    bool from_input = false;
    for (const Tensor x : node->inputs) {
      from_input = visit(x) || from_input;
    }
    if (!from_input) {
      out.push_back(node);
    }
  }
  return out;
}

std::optional<NonFinite> Watch::Level::first(std::span<const float> values) const {
  const std::set<TensorKey> bad = bad_values(values);
  const std::vector<Node*> found = origins(bad);
  if (found.empty()) {
    return std::nullopt;
  }
  // An input is reported only if no operation is.
  return describe(**std::ranges::min_element(found,
                                             [](const Node* a, const Node* b) {
                                               const bool a_input = a->op == &kInput;
                                               const bool b_input = b->op == &kInput;
                                               return a_input != b_input ? b_input : a->id < b->id;
                                             }),
                  bad, values);
}

NonFinite Watch::Level::describe(Node& node, const std::set<TensorKey>& bad,
                                 std::span<const float> values) const {
  if (const auto found = inside.find(&node); found != inside.end()) {
    const Inside& in = found->second;
    const size_t each = in.level->size;
    for (int64_t turn = 0; turn < in.length; ++turn) {
      const int64_t step = in.reverse ? in.length - 1 - turn : turn;
      const auto here = values.subspan(in.at + static_cast<size_t>(step) * each, each);
      std::optional<NonFinite> deeper = in.level->first(here);
      if (deeper && !deeper->where.empty()) {
        if (node.op == &kScan) {
          deeper->where = with_step(deeper->where, *node.scope, step, in.length);
        }
        return *deeper;
      }
    }
  }
  NonFinite out;
  out.where = node.op == &kInput ? node.get<InputAttrs>().name
                                 : *node.scope + (node.scope->empty() ? "" : "/") + node.op->name;
  for (size_t i = 0; i < node.results.size(); ++i) {
    const Tensor result = node.result(static_cast<int64_t>(i));
    if (bad.contains(key_of(result))) {
      out.shape = result.shape();
      break;
    }
  }
  return out;
}

Watch::Watch(Graph& graph, std::span<const Tensor> outputs)
    : level_(
          std::make_unique<Level>(graph, outputs, std::vector<bool>(graph.inputs().size(), true))),
      flags_(level_->flags ? level_->flags : constant(graph, 0.0, {DType::F32, {1}})) {}

Watch::~Watch() = default;

std::optional<NonFinite> Watch::first(std::span<const float> flags) const {
  check(static_cast<int64_t>(flags.size()) == flags_.dim(0),
        "[watch] {} flags given but there are {}", flags.size(), flags_.dim(0));
  return level_->first(flags);
}

std::string to_text(const NonFinite& found) {
  return fmt::format("{}, whose {} is not finite", found.where, to_string(found.shape));
}

}  // namespace kinema
