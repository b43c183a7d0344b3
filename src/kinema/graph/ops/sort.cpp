#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

struct ArgsortAttrs {
  int64_t axis;
};

// y = the positions of x along an axis in the order of their values; no gradient
constexpr Op kArgsort{
    .name = "argsort",
    .infer = [](const Node& node) -> Shape {
      check(node.shape(0).dtype != DType::PRED, "[argsort] the operand is {}, numbers are needed",
            to_string(node.shape(0)));
      return {DType::S32, node.shape(0).dims};
    },
    .gradient = Gradient::none(),
    .emit =
        [](const Node& node, Emitter& out) {
          const Shape& x = node.shape(0);
          const int64_t axis = node.get<ArgsortAttrs>().axis;
          const std::string types = mlir_type(x) + ", " + mlir_type(node.results[0]);
          const std::string scalar = mlir_type({x.dtype, {}});
          const std::string position = mlir_type({DType::S32, {}});
          const std::string positions = out.fresh();
          const std::string result = out.fresh();
          const std::string a = out.fresh();
          const std::string b = out.fresh();
          const std::string c = out.fresh();
          const std::string d = out.fresh();
          const std::string less = out.fresh();
          out.line("{} = \"stablehlo.iota\"() {{iota_dimension = {} : i64}} : () -> {}", positions,
                   axis, mlir_type(node.results[0]));
          out.line("{}:2 = \"stablehlo.sort\"({}, {}) ({{", result, out.name(node.input(0)),
                   positions);
          out.line("^bb0({}: {}, {}: {}, {}: {}, {}: {}):", a, scalar, b, scalar, c, position, d,
                   position);
          out.line(
              "  {} = \"stablehlo.compare\"({}, {}) {{comparison_direction = "
              "#stablehlo<comparison_direction LT>}} : ({}, {}) -> tensor<i1>",
              less, a, b, scalar, scalar);
          out.line("  \"stablehlo.return\"({}) : (tensor<i1>) -> ()", less);
          out.line("}}) {{dimension = {} : i64, is_stable = true}} : ({}) -> ({}){}", axis, types,
                   types, out.location(node));
          out.bind(result_of(node), result + "#1");
        },
};

constexpr const Op* kOps[] = {&kArgsort};

}  // namespace

std::span<const Op* const> sort_ops() { return kOps; }

Tensor argsort(Tensor x, Axis axis) {
  return apply(kArgsort, {x}, ArgsortAttrs{resolve_axis(axis, x.shape(), "argsort")});
}

Tensor sorted(Tensor x) {
  check(x.rank() == 1, "[sorted] the operand is {} but must have one axis", to_string(x.shape()));
  return take(x, argsort(x, Axis(0)));
}

}  // namespace kinema
