#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

struct CompareAttrs {
  Comparison how;
};

struct DTypeAttrs {
  DType dtype;
};

const char* direction(Comparison how) {
  switch (how) {
    case Comparison::EQ:
      return "EQ";
    case Comparison::NE:
      return "NE";
    case Comparison::LT:
      return "LT";
    case Comparison::LE:
      return "LE";
    case Comparison::GT:
      return "GT";
    default:
      return "GE";
  }
}

Shape converted(const Node& node) { return {node.get<DTypeAttrs>().dtype, node.shape(0).dims}; }

// y = [a < b] and so on; no gradient
constexpr Op kCompare{
    .name = "compare",
    .infer = [](const Node& node) -> Shape {
      return {DType::PRED, same_for_all(node).dims};
    },
    .gradient = Gradient::none(),
    .mlir = "stablehlo.compare",
    .attributes = [](const Node& node) -> std::string {
      return fmt::format("comparison_direction = #stablehlo<comparison_direction {}>",
                         direction(node.get<CompareAttrs>().how));
    },
    .free_to_recompute = true,
};

// y = [|x| < inf]; no gradient
constexpr Op kIsFinite{
    .name = "is_finite",
    .infer = [](const Node& node) -> Shape {
      return {DType::PRED, same_float(node).dims};
    },
    .gradient = Gradient::none(),
    .mlir = "stablehlo.is_finite",
};

// y = a where which, else b,  da = dy where which, else 0,  db = 0 where which, else dy
constexpr Op kSelect{
    .name = "select",
    .infer = [](const Node& node) -> Shape {
      check(node.shape(0).dtype == DType::PRED, "[select] the choice is {}, pred is needed",
            to_string(node.shape(0)));
      check(node.shape(0).dims == node.shape(1).dims && node.shape(1) == node.shape(2),
            "[select] {}, {} and {} differ", to_string(node.shape(0)), to_string(node.shape(1)),
            to_string(node.shape(2)));
      return node.shape(1);
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Tensor which = y.node().input(0);
      const Tensor zero = zeros_like(dy);
      return {Tensor(), select(which, dy, zero), select(which, zero, dy)};
    },
    .mlir = "stablehlo.select",
    .free_to_recompute = true,
};

// y = the bits of x; no gradient
constexpr Op kBitcast{
    .name = "bitcast",
    .infer = [](const Node& node) -> Shape {
      Shape out = converted(node);
      check(byte_size(out.dtype) == byte_size(node.shape(0).dtype),
            "[bitcast] {} cannot be read as {}: the widths differ", to_string(node.shape(0)),
            to_string(out.dtype));
      return out;
    },
    .gradient = Gradient::none(),
    .mlir = "stablehlo.bitcast_convert",
    .free_to_recompute = true,
};

}  // namespace

// y = the same value in another dtype,  dx = dy in x's dtype (none for integers)
const Op kConvert{
    .name = "convert",
    .infer = converted,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const DType from = y.node().input(0).dtype();
      return {is_float(from) ? convert(dy, from) : Tensor()};
    },
    .mlir = "stablehlo.convert",
    .free_to_recompute = true,
};

std::span<const Op* const> compare_ops() {
  static constexpr const Op* kOps[] = {&kCompare, &kIsFinite, &kSelect, &kConvert, &kBitcast};
  return kOps;
}

Tensor compare(Tensor a, Comparison how, Tensor b) {
  check_same_dtype("compare", a.shape(), b.shape());
  const Dims dims = broadcast_dims("compare", a.shape(), b.shape());
  return apply(kCompare, {broadcast_to(a, dims), broadcast_to(b, dims)}, CompareAttrs{how});
}

Tensor compare(Tensor a, Comparison how, double b) { return compare(a, how, full_like(a, b)); }

Tensor is_finite(Tensor x) { return apply(kIsFinite, {x}); }

Tensor select(Tensor which, Tensor on_true, Tensor on_false) {
  check_same_dtype("select", on_true.shape(), on_false.shape());
  Shape common{on_true.dtype(), broadcast_dims("select", on_true.shape(), on_false.shape())};
  common.dims = broadcast_dims("select", common, which.shape());
  return apply(kSelect, {broadcast_to(which, common.dims), broadcast_to(on_true, common.dims),
                         broadcast_to(on_false, common.dims)});
}

Tensor convert(Tensor x, DType dtype) {
  return x.dtype() == dtype ? x : apply(kConvert, {x}, DTypeAttrs{dtype});
}

Tensor bitcast(Tensor x, DType dtype) {
  return x.dtype() == dtype ? x : apply(kBitcast, {x}, DTypeAttrs{dtype});
}

}  // namespace kinema
