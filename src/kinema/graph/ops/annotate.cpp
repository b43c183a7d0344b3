#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

// Emits nothing: the result is an alias of the operand.
void emit_nothing(const Node& node, Emitter& out) {
  out.bind(result_of(node), out.name(node.input(0)));
}

}  // namespace

// y = x; no gradient
const Op kStopGradient{
    .name = "stop_gradient",
    .infer = same_as_first,
    .gradient = Gradient::none(),
    .emit = emit_nothing,
    .free_to_recompute = true,
};

// y = x,  dx = dy
const Op kNamed{
    .name = "named",
    .infer = same_as_first,
    .gradient = [](Tensor, Tensor dy) -> Cotangents { return {dy}; },
    .emit = emit_nothing,
    .free_to_recompute = true,
};

// y = x with a sharding constraint,  dx = dy with the same
const Op kWithSharding{
    .name = "with_sharding",
    .infer = [](const Node& node) -> Shape {
      const auto& dims = node.get<ShardingAttrs>().sharding.dims;
      check(dims.empty() || static_cast<int64_t>(dims.size()) == node.shape(0).rank(),
            "[with_sharding] the sharding has {} axes, {} has {}", dims.size(),
            to_string(node.shape(0)), node.shape(0).rank());
      return node.shape(0);
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      return {with_sharding(dy, y.node().get<ShardingAttrs>().sharding)};
    },
    .emit =
        [](const Node& node, Emitter& out) {
          if (out.options().mesh.axes.empty()) {
            return emit_nothing(node, out);
          }
          // An empty sharding means replicated: one empty list for each axis.
          Sharding sharding = node.get<ShardingAttrs>().sharding;
          sharding.dims.resize(static_cast<size_t>(node.shape(0).rank()));
          out.generic(node, "sdy.sharding_constraint", "sharding = " + sharding_text(sharding));
        },
    .free_to_recompute = true,
};

// y_i = x_i,  dx_i = dy_i, after another barrier
const Op kOptimizationBarrier{
    .name = "optimization_barrier",
    .infer = same_as_first,
    .gradient = [](Node& node, std::span<const Tensor> dys,
                   const std::vector<bool>&) -> Cotangents {
      std::vector<Tensor> given;
      for (const Tensor dy : dys) {
        if (dy) {
          given.push_back(dy);
        }
      }
      const std::vector<Tensor> barrier_outputs = optimization_barrier(given);
      Cotangents grads(node.inputs.size());
      size_t next = 0;
      for (size_t i = 0; i < grads.size(); ++i) {
        if (dys[i]) {
          grads[i] = barrier_outputs[next++];
        }
      }
      return grads;
    },
    .mlir = "stablehlo.optimization_barrier",
    .free_to_recompute = true,
};

std::span<const Op* const> annotate_ops() {
  static constexpr const Op* kOps[] = {&kStopGradient, &kNamed, &kWithSharding,
                                       &kOptimizationBarrier};
  return kOps;
}

Tensor stop_gradient(Tensor x) { return apply(kStopGradient, {x}); }

Tensor named(Tensor x, std::string_view name) {
  return apply(kNamed, {x}, NamedAttrs{std::string(name)});
}

Tensor with_sharding(Tensor x, Sharding sharding) {
  return apply(kWithSharding, {x}, ShardingAttrs{std::move(sharding)});
}

std::vector<Tensor> optimization_barrier(std::vector<Tensor> xs) {
  if (xs.empty()) {
    return {};
  }
  std::vector<Shape> shapes;
  for (const Tensor x : xs) {
    shapes.push_back(x.shape());
  }
  Graph& graph = innermost(xs);
  Node& node = graph.add_multi(kOptimizationBarrier, xs, {}, std::move(shapes));
  std::vector<Tensor> out;
  out.reserve(xs.size());
  for (size_t i = 0; i < xs.size(); ++i) {
    out.push_back(node.result(static_cast<int64_t>(i)));
  }
  return out;
}

}  // namespace kinema
