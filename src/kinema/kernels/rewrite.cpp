#include "kinema/kernels/rewrite.h"

#include <memory>

#include "kinema/core/error.h"

namespace kinema::kernels {

void emit_replacement(const Node& node, Emitter& out,
                      const std::function<std::vector<Tensor>(std::span<const Tensor>)>& build) {
  emit_replacement(node, node.inputs, out, build);
}

void emit_replacement(const Node& node, std::span<const Tensor> given, Emitter& out,
                      const std::function<std::vector<Tensor>(std::span<const Tensor>)>& build) {
  const auto graph = std::make_shared<Graph>();
  out.keep(graph);
  graph->set_scope_path(*node.scope);
  std::vector<Tensor> inputs;
  for (const Tensor x : given) {
    inputs.push_back(graph->input(x.shape()));
    out.bind(inputs.back(), out.name(x));
  }
  const std::vector<Tensor> built = build(inputs);
  check(built.size() == node.results.size(), "[kernels] {} results in place of the {} of `{}`",
        built.size(), node.results.size(), node.op->name);
  std::vector<Tensor> results;
  std::vector<Tensor> read;
  for (size_t i = 0; i < built.size(); ++i) {
    const Tensor result = const_cast<Node&>(node).result(static_cast<int64_t>(i));
    check(built[i].shape() == result.shape(), "[kernels] {} in place of result {} of `{}`, {}",
          to_string(built[i].shape()), i, node.op->name, to_string(result.shape()));
    if (out.uses(result) > 0) {
      results.push_back(result);
      read.push_back(built[i]);
    }
  }
  out.body(*graph, read);
  for (size_t i = 0; i < results.size(); ++i) {
    out.bind(results[i], out.name(read[i]));
  }
}

}  // namespace kinema::kernels
