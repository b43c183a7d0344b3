#include "kinema/pjrt/collective_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/pjrt/device_groups.h"
#include "pjrt/hlo.pb.h"

namespace kinema::pjrt {
namespace {

using Kind = CollectiveCall::Kind;

constexpr int kTypedFfi = 4;  // in XLA's CustomCallApiVersion

std::optional<Kind> kind_of(const wire::HloInstruction& one) {
  const std::string& opcode = one.opcode();
  if (opcode == "all-reduce") {
    return Kind::ALL_REDUCE;
  }
  if (opcode == "all-gather") {
    return Kind::ALL_GATHER;
  }
  if (opcode == "all-to-all") {
    return one.shape().tuple_shapes_size() > 0 ? Kind::EXCHANGE : Kind::ALL_TO_ALL;
  }
  if (opcode == "collective-permute") {
    return Kind::COLLECTIVE_PERMUTE;
  }
  if (opcode == "reduce-scatter") {
    return Kind::REDUCE_SCATTER;
  }
  return std::nullopt;
}

/// True for communication between devices that no call supports.
bool is_unknown(std::string_view opcode) {
  constexpr std::array<std::string_view, 8> kOthers = {"collective-broadcast",
                                                       "ragged-all-to-all",
                                                       "replica-id",
                                                       "send",
                                                       "send-done",
                                                       "recv",
                                                       "recv-done",
                                                       "domain"};
  const bool is_half = opcode.starts_with("all-") || opcode.starts_with("collective-") ||
                       opcode.starts_with("reduce-scatter");
  return std::ranges::find(kOthers, opcode) != kOthers.end() ||
         (is_half && (opcode.ends_with("-start") || opcode.ends_with("-done")));
}

bool same_layout(const wire::HloShape& a, const wire::HloShape& b) {
  return std::ranges::equal(a.layout().minor_to_major(), b.layout().minor_to_major());
}

/// The sizes of an array in memory order, and the position of a dimension among them.
CollectiveCall::Operand operand_of(const wire::HloShape& shape, int64_t dimension) {
  const auto& order = shape.layout().minor_to_major();
  check(order.size() == shape.dimensions_size() && shape.tuple_shapes().empty(),
        "[pjrt] the optimized program has a collective of an array without a layout");
  CollectiveCall::Operand out;
  for (int i = order.size(); i-- > 0;) {
    check(order[i] >= 0 && order[i] < shape.dimensions_size(),
          "[pjrt] the optimized program has a layout with dimension {} of {}", order[i],
          shape.dimensions_size());
    if (order[i] == dimension) {
      out.axis = out.dims.size();
    }
    out.dims.push_back(shape.dimensions(static_cast<int>(order[i])));
  }
  return out;
}

/// Replaces a module's collectives by calls.
class Rewriter {
 public:
  Rewriter(wire::HloModule& module, int64_t partitions, int64_t program)
      : module_(module), partitions_(partitions), program_(program) {
    for (const wire::HloComputation& computation : module.computations()) {
      computations_.emplace(computation.id(), &computation);
      for (const wire::HloInstruction& one : computation.instructions()) {
        shapes_.emplace(one.id(), &one.shape());
      }
    }
  }

  std::vector<CollectiveCall> run() {
    // The module is partitioned already.
    module_.clear_spmd_output_sharding();
    module_.clear_spmd_parameters_shardings();
    for (wire::HloComputation& computation : *module_.mutable_computations()) {
      for (wire::HloInstruction& one : *computation.mutable_instructions()) {
        one.clear_sharding();
        rewrite(one);
      }
    }
    drop_reductions();
    return std::move(calls_);
  }

 private:
  void rewrite(wire::HloInstruction& one) {
    check(!is_unknown(one.opcode()),
          "[pjrt] `{}` of the optimized program is a {}, which does not work across processes",
          one.name(), one.opcode());
    if (one.opcode() == "partition-id") {
      make_call(one, kPartitionHandler, fmt::format("{{program = {} : i64}}", program_));
    } else if (const std::optional<Kind> kind = kind_of(one)) {
      calls_.push_back(call_of(one, *kind));
      for (const int64_t id : one.called_computation_ids()) {
        reductions_.insert(id);
      }
      make_call(
          one, kCollectiveHandler,
          fmt::format("{{program = {} : i64, site = {} : i64}}", program_, std::ssize(calls_) - 1));
      one.set_custom_call_has_side_effect(true);
    }
  }

  static void make_call(wire::HloInstruction& one, const char* target,
                        const std::string& attributes) {
    one.set_opcode("custom-call");
    one.set_custom_call_target(target);
    one.set_custom_call_api_version(kTypedFfi);
    one.set_backend_config(attributes);
    one.clear_dimensions();
    one.clear_channel_id();
    one.clear_called_computation_ids();
    one.clear_replica_groups();
    one.clear_source_target_pairs();
    one.clear_use_global_device_ids();
    one.clear_collective_device_list();
    one.clear_iota_groups();
    one.clear_mesh_groups();
    one.clear_all_reduce_id();
    one.clear_constrain_layout();
  }

  const wire::HloShape& shape_of(int64_t id) const {
    const auto found = shapes_.find(id);
    check(found != shapes_.end(),
          "[pjrt] the optimized program refers to instruction {}, which it lacks", id);
    return *found->second;
  }

  CollectiveCall call_of(const wire::HloInstruction& one, Kind kind) const {
    CollectiveCall out{.kind = kind, .name = one.name()};
    const int64_t dimension = one.dimensions_size() > 0 ? one.dimensions(0) : 0;
    for (int i = 0; i < one.operand_ids_size(); ++i) {
      const wire::HloShape& operand = shape_of(one.operand_ids(i));
      const bool is_tuple = one.shape().tuple_shapes_size() > 0;
      check(!is_tuple || i < one.shape().tuple_shapes_size(),
            "[pjrt] `{}` of the optimized program has more operands than results", one.name());
      check(same_layout(operand, is_tuple ? one.shape().tuple_shapes(i) : one.shape()),
            "[pjrt] `{}` of the optimized program changes the layout of its operand", one.name());
      out.operands.push_back(operand_of(operand, dimension));
    }
    if (kind == Kind::ALL_REDUCE || kind == Kind::REDUCE_SCATTER) {
      out.reduction = reduction_of(one);
    }
    if (kind == Kind::COLLECTIVE_PERMUTE) {
      for (const auto& pair : one.source_target_pairs()) {
        check_partition(pair.source(), one);
        check_partition(pair.target(), one);
        out.pairs.emplace_back(pair.source(), pair.target());
      }
      return out;
    }
    out.groups = device_groups(one);
    if (out.groups.empty()) {
      out.groups.emplace_back(partitions_);
      std::iota(out.groups.front().begin(), out.groups.front().end(), 0);
    }
    int64_t members = 0;
    for (const std::vector<int64_t>& group : out.groups) {
      members += std::ssize(group);
      std::ranges::for_each(group, [&](int64_t each) { check_partition(each, one); });
    }
    check(members == partitions_,
          "[pjrt] `{}` of the optimized program has {} partitions in its groups, not {}",
          one.name(), members, partitions_);
    return out;
  }

  void check_partition(int64_t partition, const wire::HloInstruction& one) const {
    check(partition >= 0 && partition < partitions_,
          "[pjrt] `{}` of the optimized program names partition {} of {}", one.name(), partition,
          partitions_);
  }

  /// The single operation of the computation of a reduction.
  std::string reduction_of(const wire::HloInstruction& one) const {
    constexpr std::array<std::string_view, 6> kKnown = {"add",      "maximum", "minimum",
                                                        "multiply", "and",     "or"};
    const auto found = one.called_computation_ids().empty()
                           ? computations_.end()
                           : computations_.find(one.called_computation_ids(0));
    check(found != computations_.end(), "[pjrt] `{}` of the optimized program reduces by nothing",
          one.name());
    std::string opcode;
    for (const wire::HloInstruction& each : found->second->instructions()) {
      if (each.id() == found->second->root_id()) {
        opcode = each.opcode();
      }
    }
    check(found->second->instructions_size() == 3 &&
              std::ranges::find(kKnown, opcode) != kKnown.end(),
          "[pjrt] `{}` of the optimized program reduces by `{}`, which is not known", one.name(),
          found->second->name());
    return opcode;
  }

  /// XLA rejects unused computations.
  void drop_reductions() {
    std::set<int64_t> used;
    for (const wire::HloComputation& computation : module_.computations()) {
      for (const wire::HloInstruction& one : computation.instructions()) {
        used.insert(one.called_computation_ids().begin(), one.called_computation_ids().end());
      }
    }
    auto& all = *module_.mutable_computations();
    for (auto it = all.begin(); it != all.end();) {
      const bool drop = reductions_.contains(it->id()) && !used.contains(it->id());
      it = drop ? all.erase(it) : it + 1;
    }
    if (auto& sequences = *module_.mutable_schedule()->mutable_sequences(); !sequences.empty()) {
      for (const int64_t id : reductions_) {
        if (!used.contains(id)) {
          sequences.erase(id);
        }
      }
    }
  }

  wire::HloModule& module_;
  int64_t partitions_;
  int64_t program_;
  std::map<int64_t, const wire::HloComputation*> computations_;
  std::map<int64_t, const wire::HloShape*> shapes_;
  std::set<int64_t> reductions_;
  std::vector<CollectiveCall> calls_;
};

}  // namespace

ProgramWithCalls with_collective_calls(const OptimizedProgram& optimized, int64_t partitions,
                                       int64_t program) {
  wire::HloModuleWithConfig with_config;
  const bool has_config = optimized.format == "hlo_with_config";
  check(has_config || optimized.format == "hlo",
        "[pjrt] the optimized program has format `{}`, expected HLO", optimized.format);
  check(has_config ? with_config.ParseFromString(optimized.bytes)
                   : with_config.mutable_hlo_module()->ParseFromString(optimized.bytes),
        "[pjrt] the optimized program ({} bytes) is not an HLO module", optimized.bytes.size());
  wire::HloModule& module = *with_config.mutable_hlo_module();
  ProgramWithCalls out;
  out.calls = Rewriter(module, partitions, program).run();
  out.hlo = module.SerializeAsString();
  return out;
}

}  // namespace kinema::pjrt
