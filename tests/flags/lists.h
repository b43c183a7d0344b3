#pragma once

#include <string>
#include <vector>

#include "kinema/flags/effective.h"

/// Published lists of flags that people copy.
namespace kinema::flags_test {

/// MaxDiffusion's README, training of Wan 2.1 on v5p; also the tuning page's list.
inline constexpr const char* kReadmeTraining =
    "--xla_tpu_enable_async_collective_fusion_fuse_all_gather=true "
    "--xla_tpu_megacore_fusion_allow_ags=false --xla_enable_async_collective_permute=true "
    "--xla_tpu_enable_ag_backward_pipelining=true "
    "--xla_tpu_enable_data_parallel_all_reduce_opt=true "
    "--xla_tpu_data_parallel_opt_different_sized_ops=true "
    "--xla_tpu_enable_async_collective_fusion=true "
    "--xla_tpu_enable_async_collective_fusion_multiple_steps=true "
    "--xla_tpu_overlap_compute_collective_tc=true --xla_enable_async_all_gather=true "
    "--xla_tpu_scoped_vmem_limit_kib=65536 --xla_tpu_enable_async_all_to_all=true "
    "--xla_tpu_enable_all_experimental_scheduler_features=true "
    "--xla_tpu_enable_scheduler_memory_pressure_tracking=true "
    "--xla_tpu_host_transfer_overlap_limit=24 --xla_tpu_aggressive_opt_barrier_removal=ENABLED "
    "--xla_lhs_prioritize_async_depth_over_stall=ENABLED "
    "--xla_should_allow_loop_variant_parameter_in_chain=ENABLED "
    "--xla_should_add_loop_invariant_op_in_chain=ENABLED --xla_max_concurrent_host_send_recv=100 "
    "--xla_tpu_scheduler_percent_shared_memory_limit=100 --xla_latency_hiding_scheduler_rerun=2 "
    "--xla_tpu_use_minor_sharding_for_major_trivial_input=true "
    "--xla_tpu_relayout_group_size_threshold_for_reduce_scatter=1 "
    "--xla_tpu_assign_all_reduce_scatter_layout=true";

/// The five flags of MaxDiffusion issue 429, also in its README for inference.
inline const std::vector<std::string>& nan_report() {
  static const std::vector<std::string> names = {
      "xla_tpu_enable_async_collective_fusion",
      "xla_tpu_enable_async_collective_fusion_fuse_all_reduce",
      "xla_tpu_enable_async_collective_fusion_multiple_steps",
      "xla_tpu_overlap_compute_collective_tc", "xla_enable_async_all_reduce"};
  return names;
}

/// MaxDiffusion's fast inference script.
inline constexpr const char* kFastGeneration =
    "--xla_tpu_spmd_rng_bit_generator_unsafe=true --xla_tpu_enable_async_collective_fusion=true "
    "--xla_tpu_enable_async_collective_fusion_fuse_all_gather=false "
    "--xla_tpu_enable_async_collective_fusion_multiple_steps=true "
    "--xla_tpu_memory_bound_loop_optimizer_options=enabled:true "
    "--xla_tpu_enable_dot_strength_reduction=true --xla_enable_async_collective_permute=true "
    "--xla_tpu_enable_data_parallel_all_reduce_opt=true "
    "--xla_tpu_data_parallel_opt_different_sized_ops=true "
    "--xla_tpu_overlap_compute_collective_tc=true --xla_enable_async_all_gather=true "
    "--xla_tpu_scoped_vmem_limit_kib=65536 --xla_tpu_enable_async_all_to_all=true "
    "--xla_tpu_enable_all_experimental_scheduler_features=true "
    "--xla_tpu_enable_scheduler_memory_pressure_tracking=true "
    "--xla_tpu_host_transfer_overlap_limit=24 --xla_tpu_aggressive_opt_barrier_removal=ENABLED "
    "--xla_lhs_prioritize_async_depth_over_stall=ENABLED "
    "--xla_should_allow_loop_variant_parameter_in_chain=ENABLED "
    "--xla_should_add_loop_invariant_op_in_chain=ENABLED --xla_tpu_enable_ici_ag_pipelining=true "
    "--xla_max_concurrent_host_send_recv=100 --xla_tpu_scheduler_percent_shared_memory_limit=100 "
    "--xla_latency_hiding_scheduler_rerun=2 "
    "--xla_tpu_use_minor_sharding_for_major_trivial_input=true "
    "--xla_tpu_relayout_group_size_threshold_for_reduce_scatter=1 "
    "--xla_tpu_enable_latency_hiding_scheduler=true --xla_tpu_enable_ag_backward_pipelining=true "
    "--xla_tpu_use_single_sparse_core_for_all_gather_offload=true "
    "--xla_tpu_sparse_core_all_gather_latency_multiplier=1 "
    "--xla_tpu_sparse_core_reduce_scatter_latency_multiplier=3 "
    "--xla_tpu_enable_sparse_core_collective_aggregator=true "
    "--xla_tpu_enable_sparse_core_offload_queuing_in_lhs=true "
    "--xla_tpu_enable_sparse_core_reduce_scatter_v2=true "
    "--xla_tpu_enable_sparse_core_collective_offload_all_gather=true "
    "--xla_tpu_enable_sparse_core_collective_offload_2d_all_gather=true "
    "--xla_tpu_enable_sparse_core_collective_offload_all_reduce=true "
    "--xla_tpu_enable_sparse_core_collective_offload_reduce_scatter=true "
    "--xla_tpu_enable_sparse_core_collective_offload_3d_all_gather=true "
    "--xla_tpu_enable_concurrent_sparse_core_offloading=true "
    "--xla_tpu_assign_all_reduce_scatter_layout=true --xla_tpu_enable_megacore_fusion=true "
    "--xla_tpu_megacore_fusion_allow_ags=true --xla_tpu_dvfs_p_state=7";

/// The 15 flags of DreamerV3 for GPU.
inline constexpr const char* kDreamerGpu =
    "--xla_disable_hlo_passes=rematerialization "
    "--xla_gpu_all_gather_combine_threshold_bytes=134217728 "
    "--xla_gpu_all_reduce_combine_threshold_bytes=134217728 "
    "--xla_gpu_enable_all_gather_combine_by_dim=false "
    "--xla_gpu_enable_highest_priority_async_stream=true "
    "--xla_gpu_enable_latency_hiding_scheduler=true --xla_gpu_enable_pipelined_all_gather=true "
    "--xla_gpu_enable_pipelined_all_reduce=true --xla_gpu_enable_pipelined_reduce_scatter=true "
    "--xla_gpu_enable_reduce_scatter_combine_by_dim=false --xla_gpu_enable_triton_gemm=false "
    "--xla_gpu_enable_triton_softmax_fusion=false "
    "--xla_gpu_enable_while_loop_double_buffering=true --xla_gpu_graph_level=0 "
    "--xla_gpu_reduce_scatter_combine_threshold_bytes=67108864";

/// The flags that it puts into XLA_FLAGS for TPU.
inline constexpr const char* kDreamerTpu =
    "--xla_disable_hlo_passes=rematerialization --xla_tpu_megacore_fusion_allow_ags=false "
    "--xla_enable_async_collective_permute=true --xla_tpu_enable_ag_backward_pipelining=true "
    "--xla_tpu_enable_data_parallel_all_reduce_opt=true "
    "--xla_tpu_data_parallel_opt_different_sized_ops=true "
    "--xla_tpu_enable_async_collective_fusion=true "
    "--xla_tpu_enable_async_collective_fusion_multiple_steps=true "
    "--xla_tpu_overlap_compute_collective_tc=true --xla_enable_async_all_gather=true";

/// The platform of a target, from its chip's name.
inline flags::Platform platform_of(std::string_view target) {
  const std::string chip(target.substr(0, target.find(':')));
  const bool tpu = chip.starts_with("v") || chip.starts_with("tpu");
  return {.backend = tpu             ? flags::Backend::TPU
                     : chip == "cpu" ? flags::Backend::CPU
                                     : flags::Backend::GPU,
          .chip = chip};
}

/// The list as LIBTPU_INIT_ARGS on `target`.
inline flags::Request on_tpu(const std::string& target, const std::string& list,
                             const std::string& version = "") {
  flags::Request request{.platform = platform_of(target), .libtpu_init_args = list};
  request.platform.version = version;
  return request;
}

/// The list as XLA_FLAGS on `target`.
inline flags::Request in_xla_flags(const std::string& target, const std::string& list) {
  return {.platform = platform_of(target), .xla_flags = list};
}

/// Ids of the findings of one severity, in order.
inline std::vector<std::string> ids(const flags::Effective& effective, flags::Severity severity) {
  std::vector<std::string> out;
  for (const flags::Finding& finding : effective.findings) {
    if (finding.severity == severity) {
      out.push_back(finding.id);
    }
  }
  return out;
}

inline std::vector<std::string> errors(const flags::Effective& effective) {
  return ids(effective, flags::Severity::ERROR);
}

inline const flags::Finding& finding(const flags::Effective& effective, const std::string& id) {
  for (const flags::Finding& each : effective.findings) {
    if (each.id == id) {
      return each;
    }
  }
  throw std::out_of_range("no finding " + id);
}

}  // namespace kinema::flags_test
