#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

struct ReshapeAttrs {
  Dims dims;
};

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> out(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return out;
}

}  // namespace

// y = x's elements in the same order,  dx = dy in x's sizes
constinit const Op kReshape{
    .name = "reshape",
    .infer = [](const Node& node) -> Shape {
      const Shape& x = node.shape(0);
      const Dims& dims = node.get<ReshapeAttrs>().dims;
      check(checked_elements(dims) == x.elements(), "[reshape] {} has {} elements, {} has {}",
            to_string(x), x.elements(), to_string(dims), checked_elements(dims));
      return {x.dtype, dims};
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      return {reshape(dy, y.node().shape(0).dims)};
    },
    .mlir = "stablehlo.reshape",
    .free_to_recompute = true,
};

// y = x with axes in another order,  dx = dy in the inverse order
constinit const Op kTranspose{
    .name = "transpose",
    .infer = [](const Node& node) -> Shape {
      const Shape& x = node.shape(0);
      const std::vector<int64_t>& order = node.get<TransposeAttrs>().order;
      std::vector<int64_t> sorted = order;
      std::ranges::sort(sorted);
      bool complete = static_cast<int64_t>(order.size()) == x.rank();
      for (size_t i = 0; complete && i < sorted.size(); ++i) {
        complete = sorted[i] == static_cast<int64_t>(i);
      }
      check(complete, "[transpose] {} is not an order of the axes of {}", to_string(order),
            to_string(x));
      Shape out{x.dtype, {}};
      for (const int64_t axis : order) {
        out.dims.push_back(x.dims[static_cast<size_t>(axis)]);
      }
      return out;
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      return {transpose(dy, inverse(y.node().get<TransposeAttrs>().order))};
    },
    .mlir = "stablehlo.transpose",
    .attributes = [](const Node& node) -> std::string {
      return "permutation = " + i64_array(node.get<TransposeAttrs>().order);
    },
    .free_to_recompute = true,
};

// y[..., i, ...] = x[..., 0 or i, ...],  dx = dy summed over the axes along which x repeats
constinit const Op kBroadcast{
    .name = "broadcast_in_dim",
    .infer = [](const Node& node) -> Shape {
      const Shape& x = node.shape(0);
      const auto& [dims, axes] = node.get<BroadcastAttrs>();
      Shape out{x.dtype, dims};
      checked_elements(dims);
      check(static_cast<int64_t>(axes.size()) == x.rank() &&
                std::ranges::adjacent_find(axes, std::greater_equal<>()) == axes.end(),
            "[broadcast_in_dim] {} needs one rising axis of {} each, {} given", to_string(x),
            to_string(dims), to_string(axes));
      for (size_t i = 0; i < axes.size(); ++i) {
        check(axes[i] >= 0 && axes[i] < out.rank(),
              "[broadcast_in_dim] axis {} is outside the result {}", axes[i], to_string(out));
        const int64_t size = dims[static_cast<size_t>(axes[i])];
        check(x.dims[i] == size || x.dims[i] == 1,
              "[broadcast_in_dim] axis {} of {} cannot become axis {} of {}", i, to_string(x),
              axes[i], to_string(out));
      }
      return out;
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const auto& [dims, axes] = y.node().get<BroadcastAttrs>();
      const Dims& from = y.node().shape(0).dims;
      std::vector<int64_t> repeated;
      for (size_t i = 0; i < dims.size(); ++i) {
        const auto at = std::ranges::find(axes, static_cast<int64_t>(i));
        const bool kept =
            at != axes.end() && from[static_cast<size_t>(at - axes.begin())] == dims[i];
        if (!kept) {
          repeated.push_back(static_cast<int64_t>(i));
        }
      }
      return {reshape(repeated.empty() ? dy : sum(dy, repeated), from)};
    },
    .mlir = "stablehlo.broadcast_in_dim",
    .attributes = [](const Node& node) -> std::string {
      return "broadcast_dimensions = " + i64_array(node.get<BroadcastAttrs>().axes);
    },
    .free_to_recompute = true,
};

namespace {

constexpr const Op* kOps[] = {&kReshape, &kTranspose, &kBroadcast};

}  // namespace

std::span<const Op* const> reshape_ops() { return kOps; }

Tensor reshape(Tensor x, Dims dims) {
  const auto unknown = std::ranges::find(dims, -1);
  if (unknown != dims.end()) {
    *unknown = 1;
    const int64_t known = checked_elements(dims);
    const int64_t all = x.shape().elements();
    *unknown = known == 0 ? 0 : all / known;
    check(known != 0 && all % known == 0, "[reshape] {} cannot be divided into rows of {}",
          to_string(x.shape()), known);
  }
  return dims == x.shape().dims ? x : apply(kReshape, {x}, ReshapeAttrs{std::move(dims)});
}

Tensor transpose(Tensor x, std::vector<int64_t> order) {
  if (static_cast<int64_t>(order.size()) == x.rank() && std::ranges::is_sorted(order) &&
      (order.empty() || (order.front() == 0 && order.back() == x.rank() - 1))) {
    const bool repeats = std::ranges::adjacent_find(order) != order.end();
    if (!repeats) {
      return x;
    }
  }
  return apply(kTranspose, {x}, TransposeAttrs{std::move(order)});
}

Tensor broadcast_to(Tensor x, Dims dims) {
  if (x.shape().dims == dims) {
    return x;
  }
  const int64_t added = static_cast<int64_t>(dims.size()) - x.rank();
  check(added >= 0, "[broadcast_to] {} has more axes than {}", to_string(x.shape()),
        to_string(dims));
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < x.rank(); ++i) {
    axes.push_back(added + i);
  }
  return broadcast_in_dim(x, std::move(dims), std::move(axes));
}

Tensor broadcast_in_dim(Tensor x, Dims dims, std::vector<int64_t> axes) {
  return apply(kBroadcast, {x}, BroadcastAttrs{std::move(dims), std::move(axes)});
}

Tensor expand_dims(Tensor x, Axis axis) {
  Dims dims = x.shape().dims;
  // The axis is counted in the result, so that -1 appends.
  const Shape out{x.dtype(), Dims(dims.size() + 1, 1)};
  dims.insert(dims.begin() + resolve_axis(axis, out, "expand_dims"), 1);
  return reshape(x, std::move(dims));
}

Tensor squeeze(Tensor x, Axis axis) {
  Dims dims = x.shape().dims;
  const int64_t at = resolve_axis(axis, x.shape(), "squeeze");
  check(dims[static_cast<size_t>(at)] == 1, "[squeeze] axis {} of {} is not of size 1", axis.index,
        to_string(x.shape()));
  dims.erase(dims.begin() + at);
  return reshape(x, std::move(dims));
}

}  // namespace kinema
