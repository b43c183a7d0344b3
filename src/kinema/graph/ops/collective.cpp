// Collectives, for manual regions.
#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/graph/manual.h"
#include "kinema/graph/ops.h"
#include "kinema/graph/ops/all_ops.h"
#include "kinema/graph/ops/attrs.h"
#include "kinema/graph/ops/rules.h"

namespace kinema {
namespace {

size_t at(int64_t axis) { return static_cast<size_t>(axis); }

const CollectiveAttrs& attrs_of(const Node& node) { return node.get<CollectiveAttrs>(); }
const CollectiveAttrs& attrs_of(Tensor y) { return attrs_of(y.node()); }

/// Any number will do: the compiler only checks that there is a channel.
constexpr const char* kChannel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";

std::string table(const std::vector<std::vector<int64_t>>& rows) {
  std::string text;
  for (const auto& row : rows) {
    text += (text.empty() ? "" : ", ") + i64_list(row);
  }
  return fmt::format("dense<[{}]> : tensor<{}x{}xi64>", text, rows.size(), rows.front().size());
}

std::string groups_text(const Node& node) {
  return fmt::format("replica_groups = {}, {}", table(attrs_of(node).groups.members), kChannel);
}

/// Outside a region the partitioner would give a collective another meaning.
void check_inside(const Node& node, const Emitter& out) {
  check(out.manual_depth() > 0, "[{}] is outside a manual region", node.op->name);
}

void emit_plain(const Node& node, Emitter& out, const char* mlir, const std::string& attributes) {
  check_inside(node, out);
  out.generic(node, mlir, attributes);
}

/// For collectives that combine values by a binary operation.
void emit_combining(const Node& node, Emitter& out, const char* mlir, const char* combine,
                    const std::string& attributes) {
  check_inside(node, out);
  const std::string type = mlir_type({node.shape(0).dtype, {}});
  const std::string result = out.fresh();
  const std::string a = out.fresh();
  const std::string b = out.fresh();
  const std::string both = out.fresh();
  out.line("{} = \"{}\"({}) ({{", result, mlir, out.name(node.input(0)));
  out.line("^bb0({}: {}, {}: {}):", a, type, b, type);
  out.line("  {} = {} {}, {} : {}", both, combine, a, b, type);
  out.line("  \"stablehlo.return\"({}) : ({}) -> ()", both, type);
  out.line("}}) {{{}, use_global_device_ids}} : ({}) -> {}{}", attributes, mlir_type(node.shape(0)),
           mlir_type(node.results[0]), out.location(node));
  out.bind(result_of(node), result);
}

Shape gathered(const Node& node) {
  const CollectiveAttrs& attrs = attrs_of(node);
  Shape y = node.shape(0);
  y.dims[at(attrs.axis)] *= attrs.groups.size();
  return y;
}

Shape scattered(const Node& node) {
  const CollectiveAttrs& attrs = attrs_of(node);
  Shape y = node.shape(0);
  int64_t& size = y.dims[at(attrs.axis)];
  check(size % attrs.groups.size() == 0, "[{}] axis {} of {} cannot be split among {} devices",
        node.op->name, attrs.axis, to_string(y), attrs.groups.size());
  size /= attrs.groups.size();
  return y;
}

Shape exchanged(const Node& node) {
  Shape y = scattered(node);
  y.dims[at(attrs_of(node).concat)] *= attrs_of(node).groups.size();
  return y;
}

// y = number of the device in the program's mesh
constexpr Op kDeviceNumber{
    .name = "device_number",
    .infer = [](const Node&) -> Shape {
      return {DType::U32, {}};
    },
    .gradient = Gradient::none(),
    .emit = [](const Node& node,
               Emitter& out) { emit_plain(node, out, "stablehlo.partition_id", ""); },
};

// y_d = sum_e x_e,  dx_e = sum_d dy_d
constexpr Op kAllReduceSum{
    .name = "all_reduce_sum",
    .infer = same_as_first,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      return {all_reduce_sum(dy, attrs_of(y).groups)};
    },
    .emit =
        [](const Node& node, Emitter& out) {
          emit_combining(node, out, "stablehlo.all_reduce", "stablehlo.add", groups_text(node));
        },
};

// y_d = max_e x_e,  dx_e = sum_d dy_d [x_e = y] / (their number)
constexpr Op kAllReduceMax{
    .name = "all_reduce_max",
    .infer = same_as_first,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const DeviceGroups& groups = attrs_of(y).groups;
      const Tensor is_largest = convert(compare(y.node().input(0), Comparison::EQ, y), dy.dtype());
      return {all_reduce_sum(dy, groups) * is_largest / all_reduce_sum(is_largest, groups)};
    },
    .emit =
        [](const Node& node, Emitter& out) {
          emit_combining(node, out, "stablehlo.all_reduce", "stablehlo.maximum", groups_text(node));
        },
};

// y_d = [x_0, x_1, ...],  dx_e = sum_d (part e of dy_d)
constexpr Op kAllGather{
    .name = "all_gather",
    .infer = gathered,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      return {reduce_scatter(dy, attrs_of(y).groups, Axis(attrs_of(y).axis))};
    },
    .emit =
        [](const Node& node, Emitter& out) {
          emit_plain(node, out, "stablehlo.all_gather",
                     fmt::format("all_gather_dim = {} : i64, {}, use_global_device_ids",
                                 attrs_of(node).axis, groups_text(node)));
        },
};

// y_d = sum_e (part d of x_e),  dx_e = [dy_0, dy_1, ...]
constexpr Op kReduceScatter{
    .name = "reduce_scatter",
    .infer = scattered,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      return {all_gather(dy, attrs_of(y).groups, Axis(attrs_of(y).axis))};
    },
    .emit =
        [](const Node& node, Emitter& out) {
          emit_combining(node, out, "stablehlo.reduce_scatter", "stablehlo.add",
                         fmt::format("scatter_dimension = {} : i64, {}", attrs_of(node).axis,
                                     groups_text(node)));
        },
};

// y_d = [part d of x_0, part d of x_1, ...],  dx the same with the two axes exchanged
constexpr Op kAllToAll{
    .name = "all_to_all",
    .infer = exchanged,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      const CollectiveAttrs& attrs = attrs_of(y);
      return {all_to_all(dy, attrs.groups, Axis(attrs.concat), Axis(attrs.axis))};
    },
    .emit =
        [](const Node& node, Emitter& out) {
          const CollectiveAttrs& attrs = attrs_of(node);
          emit_plain(node, out, "stablehlo.all_to_all",
                     fmt::format("split_dimension = {} : i64, concat_dimension = {} : i64, "
                                 "split_count = {} : i64, {}",
                                 attrs.axis, attrs.concat, attrs.groups.size(), groups_text(node)));
        },
};

// y_d = x_{d - by},  dx_d = dy_{d + by}
constexpr Op kRingShift{
    .name = "ring_shift",
    .infer = same_as_first,
    .gradient = [](Tensor y, Tensor dy) -> Cotangents {
      return {ring_shift(dy, attrs_of(y).groups, -attrs_of(y).by)};
    },
    .emit =
        [](const Node& node, Emitter& out) {
          const auto& [groups, axis, concat, by] = attrs_of(node);
          std::vector<std::vector<int64_t>> pairs;
          for (const auto& members : groups.members) {
            for (int64_t i = 0; i < groups.size(); ++i) {
              pairs.push_back({members[at(i)], members[at((i + by) % groups.size())]});
            }
          }
          emit_plain(node, out, "stablehlo.collective_permute",
                     fmt::format("source_target_pairs = {}, {}", table(pairs), kChannel));
        },
};

int64_t resolved(Axis axis, Tensor x, const char* op) { return resolve_axis(axis, x.shape(), op); }

}  // namespace

std::span<const Op* const> collective_ops() {
  static constexpr const Op* kOps[] = {&kDeviceNumber,  &kAllReduceSum, &kAllReduceMax, &kAllGather,
                                       &kReduceScatter, &kAllToAll,     &kRingShift};
  return kOps;
}

Tensor position_in(Graph& graph, const DeviceGroups& groups) {
  if (groups.size() == 1) {
    return constant(graph, 0.0, {DType::S32, {}});
  }
  std::vector<int32_t> positions;
  for (const auto& members : groups.members) {
    for (int64_t i = 0; i < groups.size(); ++i) {
      const size_t device = at(members[at(i)]);
      positions.resize(std::max(positions.size(), device + 1));
      positions[device] = static_cast<int32_t>(i);
    }
  }
  const Tensor all = constant(graph, {DType::S32, {static_cast<int64_t>(positions.size())}},
                              std::as_bytes(std::span(positions)));
  const Tensor device = graph.add(kDeviceNumber, {}, CollectiveAttrs{groups});
  return reshape(dynamic_slice(all, Axis(0), convert(device, DType::S32), 1), {});
}

Tensor all_reduce_sum(Tensor x, const DeviceGroups& groups) {
  return groups.size() == 1 ? x : apply(kAllReduceSum, {x}, CollectiveAttrs{groups});
}

Tensor all_reduce_max(Tensor x, const DeviceGroups& groups) {
  return groups.size() == 1 ? x : apply(kAllReduceMax, {x}, CollectiveAttrs{groups});
}

Tensor all_gather(Tensor x, const DeviceGroups& groups, Axis axis) {
  const int64_t i = resolved(axis, x, "all_gather");
  return groups.size() == 1 ? x : apply(kAllGather, {x}, CollectiveAttrs{groups, i});
}

Tensor reduce_scatter(Tensor x, const DeviceGroups& groups, Axis axis) {
  const int64_t i = resolved(axis, x, "reduce_scatter");
  return groups.size() == 1 ? x : apply(kReduceScatter, {x}, CollectiveAttrs{groups, i});
}

Tensor all_to_all(Tensor x, const DeviceGroups& groups, Axis split, Axis concat) {
  const int64_t from = resolved(split, x, "all_to_all");
  const int64_t to = resolved(concat, x, "all_to_all");
  return groups.size() == 1 ? x : apply(kAllToAll, {x}, CollectiveAttrs{groups, from, to});
}

Tensor ring_shift(Tensor x, const DeviceGroups& groups, int64_t by) {
  const int64_t steps = (by % groups.size() + groups.size()) % groups.size();
  return steps == 0 ? x : apply(kRingShift, {x}, CollectiveAttrs{groups, 0, 0, steps});
}

}  // namespace kinema
