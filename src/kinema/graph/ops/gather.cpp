#include <fmt/format.h>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

Shape rows_shape(const char* op, const Shape& table, const Shape& ids) {
  check(table.rank() >= 1 && is_integer(ids.dtype), "[{}] rows of {} by {}: integer ids are needed",
        op, to_string(table), to_string(ids));
  Shape out{table.dtype, ids.dims};
  out.dims.insert(out.dims.end(), table.dims.begin() + 1, table.dims.end());
  return out;
}

// Result axes of a row's own axes: those after the axes of the ids.
std::vector<int64_t> row_axes(const Shape& table, const Shape& ids) {
  std::vector<int64_t> out;
  for (int64_t i = 1; i < table.rank(); ++i) {
    out.push_back(ids.rank() + i - 1);
  }
  return out;
}

Tensor scatter_add(Tensor x, Tensor ids, Tensor rows);

// y[i..., :] = table[ids[i...], :],  d table = dy added to the rows it came from
constexpr Op kTake{
    .name = "take",
    .infer = [](const Node& node) -> Shape {
      return rows_shape("take", node.shape(0), node.shape(1));
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const Node& node = y.node();
      const Tensor zeros = constant(dy.graph(), 0.0, node.shape(0));
      return {scatter_add(zeros, node.input(1), dy), Tensor()};
    },
    .mlir = "stablehlo.gather",
    .attributes = [](const Node& node) -> std::string {
      std::vector<int64_t> sizes = node.shape(0).dims;
      sizes[0] = 1;
      return fmt::format(
          "dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = [0], "
          "start_index_map = [0], index_vector_dim = {}>, indices_are_sorted = false, "
          "slice_sizes = {}",
          i64_list(row_axes(node.shape(0), node.shape(1))), node.shape(1).rank(), i64_array(sizes));
    },
};

// y = x with rows[i..., :] added to x[ids[i...], :],  dx = dy,  d rows = dy[ids]
constexpr Op kScatterAdd{
    .name = "scatter_add",
    .infer = [](const Node& node) -> Shape {
      const Shape rows = rows_shape("scatter_add", node.shape(0), node.shape(1));
      check(rows == node.shape(2), "[scatter_add] rows of {} by {} are {}, {} given",
            to_string(node.shape(0)), to_string(node.shape(1)), to_string(rows),
            to_string(node.shape(2)));
      return node.shape(0);
    },
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      return {dy, Tensor(), take(dy, y.node().input(1))};
    },
    .emit =
        [](const Node& node, Emitter& out) {
          const std::string scalar = mlir_type({node.shape(0).dtype, {}});
          const std::string result = out.fresh();
          const std::string a = out.fresh();
          const std::string b = out.fresh();
          const std::string c = out.fresh();
          out.line("{} = \"stablehlo.scatter\"({}, {}, {}) ({{", result, out.name(node.input(0)),
                   out.name(node.input(1)), out.name(node.input(2)));
          out.line("^bb0({}: {}, {}: {}):", a, scalar, b, scalar);
          out.line("  {} = \"stablehlo.add\"({}, {}) : ({}, {}) -> {}", c, a, b, scalar, scalar,
                   scalar);
          out.line("  \"stablehlo.return\"({}) : ({}) -> ()", c, scalar);
          out.line(
              "}}) {{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<"
              "update_window_dims = {}, inserted_window_dims = [0], scatter_dims_to_operand_dims = "
              "[0], index_vector_dim = {}>, unique_indices = false}} : ({}, {}, {}) -> {}{}",
              i64_list(row_axes(node.shape(0), node.shape(1))), node.shape(1).rank(),
              mlir_type(node.shape(0)), mlir_type(node.shape(1)), mlir_type(node.shape(2)),
              mlir_type(node.results[0]), out.location(node));
          out.bind(result_of(node), result);
        },
};

constexpr const Op* kOps[] = {&kTake, &kScatterAdd};

// take clamps ids to the table, so its gradient must too.
Tensor scatter_add(Tensor x, Tensor ids, Tensor rows) {
  const Tensor clamped = minimum(maximum(ids, 0.0), static_cast<double>(x.dim(0) - 1));
  return apply(kScatterAdd, {x, clamped, rows});
}

}  // namespace

std::span<const Op* const> gather_ops() { return kOps; }

Tensor take(Tensor table, Tensor ids) { return apply(kTake, {table, ids}); }

}  // namespace kinema
