#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
// y = [x0 | x1 | ...] along one axis,  dx_i = the slice of dy that x_i filled
constinit const Op kConcatenate{
    .name = "concatenate",
    .infer = [](const Node& node) -> Shape {
      const auto axis = static_cast<size_t>(node.get<ConcatenateAttrs>().axis);
      Shape out = node.shape(0);
      for (size_t i = 1; i < node.inputs.size(); ++i) {
        Shape part = node.shape(i);
        const bool same_rank = part.rank() == out.rank();
        const int64_t size = same_rank ? part.dims[axis] : 0;
        if (same_rank) {
          part.dims[axis] = out.dims[axis];
        }
        check(part == out,
              "[concatenate] operand {} is {} but operand 0 is {}: they may differ on axis {} only",
              i, to_string(node.shape(i)), to_string(node.shape(0)), axis);
        out.dims[axis] += size;
      }
      return out;
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Axis axis(y.node().get<ConcatenateAttrs>().axis);
      Cotangents grads;
      int64_t start = 0;
      for (const Tensor x : y.node().inputs) {
        const int64_t size = x.dim(axis.index);
        grads.push_back(slice(dy, axis, start, size));
        start += size;
      }
      return grads;
    },
    .mlir = "stablehlo.concatenate",
    .attributes = [](const Node& node) -> std::string {
      return fmt::format("dimension = {} : i64", node.get<ConcatenateAttrs>().axis);
    },
    .free_to_recompute = true,
};

namespace {

constexpr const Op* kOps[] = {&kConcatenate};

}  // namespace

std::span<const Op* const> concatenate_ops() { return kOps; }

Tensor concatenate(std::vector<Tensor> xs, Axis axis) {
  check(!xs.empty(), "[concatenate] no operands given");
  const int64_t at = resolve_axis(axis, xs[0].shape(), "concatenate");
  return xs.size() == 1 ? xs[0] : apply(kConcatenate, std::move(xs), ConcatenateAttrs{at});
}

}  // namespace kinema
