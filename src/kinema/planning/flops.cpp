#include "kinema/planning/flops.h"

#include <memory>
#include <vector>

#include "kinema/graph/body.h"
#include "kinema/graph/ops/attrs.h"

namespace kinema::planning {
namespace {

double size(const Shape& shape) { return static_cast<double>(shape.elements()); }

double dot_flops(const Node& node) {
  double summed = 1;
  for (const int64_t axis : node.get<DotAttrs>().dims.lhs_contract) {
    summed *= static_cast<double>(node.shape(0).dims[static_cast<size_t>(axis)]);
  }
  return 2 * size(node.results[0]) * summed;
}

double convolution_flops(const Node& node) {
  const Shape& kernel = node.shape(1);  // [o, c / groups, spatial...]
  return 2 * size(node.results[0]) * size(kernel) / static_cast<double>(kernel.dims[0]);
}

double& counted(MatrixFlops& sum, DType operands) {
  return operands == DType::S8 ? sum.int8 : is_f8(operands) ? sum.float8 : sum.wide;
}

}  // namespace

MatrixFlops matrix_flops(const Graph& graph, std::span<const Tensor> outputs) {
  std::vector<bool> needed(graph.nodes().size(), false);
  for (const Tensor x : outputs) {
    needed[static_cast<size_t>(x.node().id)] = true;
  }
  MatrixFlops sum;
  for (auto id = static_cast<int64_t>(needed.size()) - 1; id >= 0; --id) {
    if (!needed[static_cast<size_t>(id)]) {
      continue;
    }
    const Node& node = graph.nodes()[static_cast<size_t>(id)];
    for (const Tensor x : node.inputs) {
      needed[static_cast<size_t>(x.node().id)] = true;
    }
    if (node.op == &kDotGeneral) {
      counted(sum, node.shape(0).dtype) += dot_flops(node);
    } else if (node.op == &kConvolution) {
      counted(sum, node.shape(0).dtype) += convolution_flops(node);
    } else if (const auto* attrs = std::any_cast<std::shared_ptr<Body>>(&node.attrs)) {
      const Body& body = **attrs;
      const int64_t times = node.op == &kScan     ? body.length
                            : node.op == &kManual ? devices_of(body)
                                                  : 1;
      const MatrixFlops each = matrix_flops(*body.graph, body.outputs);
      sum.wide += each.wide * static_cast<double>(times);
      sum.int8 += each.int8 * static_cast<double>(times);
      sum.float8 += each.float8 * static_cast<double>(times);
    }
  }
  return sum;
}

}  // namespace kinema::planning
