#include "kinema/pjrt/compile_options.h"

#include "kinema/core/error.h"
#include "pjrt/compile_options.pb.h"

namespace kinema::pjrt {
namespace {

void fill_assignment(const CompileOptions& options, wire::DeviceAssignment& out) {
  out.set_replicas(static_cast<int32_t>(options.replicas));
  out.set_partitions(static_cast<int32_t>(options.partitions));
  for (int64_t p = 0; p < options.partitions; ++p) {
    wire::DeviceAssignment::Partition& partition = *out.add_partition();
    for (int64_t r = 0; r < options.replicas; ++r) {
      partition.add_replica_device_ids(
          options.device_ids[static_cast<size_t>(r * options.partitions + p)]);
    }
  }
}

void fill_flag(const std::string& name, const FlagValue& value, wire::Flag& out) {
  out.set_name(name);
  wire::FlagValue& v = *out.mutable_value();
  if (const auto* truth = std::get_if<bool>(&value)) {
    v.set_truth(*truth);
  } else if (const auto* whole = std::get_if<int64_t>(&value)) {
    v.set_whole(*whole);
  } else if (const auto* number = std::get_if<double>(&value)) {
    v.set_number(*number);
  } else {
    v.set_text(std::get<std::string>(value));
  }
}

}  // namespace

std::string CompileOptions::serialize() const {
  check(replicas >= 1 && partitions >= 1,
        "[compile] {} replicas and {} partitions: both are at least 1", replicas, partitions);
  check(device_ids.empty() || static_cast<int64_t>(device_ids.size()) == replicas * partitions,
        "[compile] {} device ids for {} replicas x {} partitions", device_ids.size(), replicas,
        partitions);
  wire::CompileOptions out;
  wire::BuildOptions& build = *out.mutable_build();
  build.set_device_ordinal(-1);  // not bound to a device
  build.set_replicas(replicas);
  build.set_partitions(partitions);
  build.set_use_spmd_partitioning(true);
  // With one device there is nothing to partition, and XLA would log that it uses Shardy.
  build.set_use_shardy_partitioner(shardy && partitions > 1);
  build.set_run_backend_only(backend_only);
  check(optimization_level >= -1 && optimization_level <= 3 && optimization_effort >= -1 &&
            optimization_effort <= 1,
        "[compile] optimization level {} and effort {}: levels are 0 to 3 (-1: none), efforts -1 "
        "to 1",
        optimization_level, optimization_effort);
  if (optimization_level >= 0) {
    constexpr int64_t kLevel0 = 9;  // in XLA's EffortLevel, whose levels are 10 apart
    build.set_optimization_level(static_cast<int32_t>(kLevel0 + 10 * optimization_level));
  }
  build.set_optimization_effort(static_cast<float>(optimization_effort));  // 0 is not serialized
  if (!device_ids.empty()) fill_assignment(*this, *build.mutable_device_assignment());
  for (const auto& [name, value] : flags) fill_flag(name, value, *out.add_flags());
  return out.SerializeAsString();
}

}  // namespace kinema::pjrt
