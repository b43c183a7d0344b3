#include "kinema/flags/profile.h"

namespace kinema::flags {
namespace {

using Flags = std::vector<ProfileFlag>;
using Dropped = std::vector<DroppedFlag>;

constexpr std::string_view kIsDefault = "is the default";

template <typename T>
std::vector<T> joined(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The common part of MaxDiffusion's lists for training and inference.
Flags common_tpu() {
  return {
      {"xla_enable_async_all_gather", "ENABLED",
       "parameters are gathered while the previous layer computes"},
      {"xla_enable_async_collective_permute", "ENABLED", "ring attention"},
      {"xla_tpu_enable_async_all_to_all", "true", "Ulysses attention"},
      {"xla_tpu_enable_ag_backward_pipelining", "true",
       "gathers of the next layer's parameters move ahead in a scan"},
      {"xla_tpu_scoped_vmem_limit_kib", "65536", "larger tiles for attention"},
      {"xla_tpu_enable_all_experimental_scheduler_features", "true", "as in the lists"},
      {"xla_lhs_prioritize_async_depth_over_stall", "ENABLED", "more concurrent transfers"},
      {"xla_should_allow_loop_variant_parameter_in_chain", "ENABLED", "transfers to the host"},
      {"xla_should_add_loop_invariant_op_in_chain", "ENABLED", "transfers to the host"},
      {"xla_max_concurrent_host_send_recv", "100", "transfers to the host"},
      {"xla_tpu_host_transfer_overlap_limit", "24", "transfers to the host"},
      {"xla_tpu_scheduler_percent_shared_memory_limit", "100",
       "schedules may use all of the memory"},
      {"xla_latency_hiding_scheduler_rerun", "2", "retried with less if that is too much"},
      {"xla_tpu_use_minor_sharding_for_major_trivial_input", "true", "sums of gradients"},
      {"xla_tpu_relayout_group_size_threshold_for_reduce_scatter", "1", "sums of gradients"},
      {"xla_tpu_assign_all_reduce_scatter_layout", "true", "sums of gradients"},
  };
}

Dropped common_dropped() {
  return {
      {"xla_tpu_enable_async_collective_fusion=true", kIsDefault},
      {"xla_tpu_enable_async_collective_fusion_multiple_steps=true", kIsDefault},
      {"xla_tpu_overlap_compute_collective_tc=true", kIsDefault},
      {"xla_tpu_enable_data_parallel_all_reduce_opt=true", kIsDefault},
      {"xla_tpu_data_parallel_opt_different_sized_ops=true", kIsDefault},
      {"xla_tpu_enable_scheduler_memory_pressure_tracking=true",
       "is the default from libtpu 0.0.42.1 on"},
  };
}

Profile training(std::string_view name, std::string_view target, std::string_view about) {
  return {.name = name,
          .target = target,
          .about = about,
          .flags = common_tpu(),
          .dropped = joined(common_dropped(),
                            {{"xla_tpu_enable_async_collective_fusion_fuse_all_gather=true",
                              "libtpu from 0.0.43.2 on refuses it with asynchronous all-gathers "
                              "(rule fused-all-gather); AUTO is kept"},
                             {"xla_tpu_megacore_fusion_allow_ags=false", kIsDefault},
                             {"xla_tpu_aggressive_opt_barrier_removal=ENABLED",
                              "without barriers rematerialised values could be kept"}})};
}

Flags generating_flags() {
  return joined(
      common_tpu(),
      {{"xla_tpu_enable_async_collective_fusion_fuse_all_gather", "DISABLED",
        "as in the script, because libtpu refuses ENABLED"},
       {"xla_tpu_memory_bound_loop_optimizer_options", "enabled:true", "as in the script"},
       {"xla_tpu_aggressive_opt_barrier_removal", "ENABLED",
        "nothing is rematerialised without a backward pass"},
       {"xla_tpu_enable_ici_ag_pipelining", "true", "gathers inside a slice"}});
}

Flags sparse_core() {
  return {
      {"xla_tpu_enable_sparse_core_collective_offload_all_gather", "ENABLED", "SparseCore"},
      {"xla_tpu_enable_sparse_core_collective_offload_2d_all_gather", "true", "SparseCore"},
      {"xla_tpu_enable_sparse_core_collective_offload_3d_all_gather", "true", "SparseCore"},
      {"xla_tpu_enable_sparse_core_collective_offload_all_reduce", "ENABLED", "SparseCore"},
      {"xla_tpu_enable_sparse_core_collective_offload_reduce_scatter", "ENABLED", "SparseCore"},
      {"xla_tpu_enable_sparse_core_collective_aggregator", "true", "SparseCore"},
      {"xla_tpu_enable_sparse_core_offload_queuing_in_lhs", "true", "SparseCore"},
      {"xla_tpu_enable_sparse_core_reduce_scatter_v2", "true", "SparseCore"},
      {"xla_tpu_enable_concurrent_sparse_core_offloading", "true", "SparseCore"},
      {"xla_tpu_use_single_sparse_core_for_all_gather_offload", "true", "SparseCore"},
      {"xla_tpu_sparse_core_reduce_scatter_latency_multiplier", "3", "SparseCore"},
  };
}

Dropped generating_dropped() {
  return joined(common_dropped(),
                {{"xla_tpu_spmd_rng_bit_generator_unsafe=true",
                  "a seed would give another video on another number of devices"},
                 {"xla_tpu_enable_dot_strength_reduction=true", kIsDefault},
                 {"xla_tpu_enable_latency_hiding_scheduler=true", kIsDefault},
                 {"xla_tpu_sparse_core_all_gather_latency_multiplier=1", kIsDefault}});
}

Dropped without_sparse_core() {
  Dropped out = generating_dropped();
  for (const ProfileFlag& flag : sparse_core()) {
    out.push_back({flag.name, "the script is tuned for the SparseCores of v6e and tpu7x"});
  }
  return out;
}

/// One flag. How the other flags of the list change the 14B I2V denoising step was measured by
/// compiling it (docs/reference/flags.md).
Profile ulysses_v6e() {
  constexpr std::string_view kNoChange = "does not change the program";
  return {
      .name = "tpu-v6e-ulysses",
      .target = "v6e:4x4",
      .about =
          "Ulysses attention on v6e, with ulysses_attention_chunks above 1: all-to-alls overlap "
          "with attention kernels, without the flags of MaxDiffusion issue 429",
      .flags = {{"xla_tpu_enable_async_all_to_all", "true",
                 "one group of heads is exchanged while the kernel of another computes"}},
      .dropped = {{"xla_tpu_enable_async_collective_fusion=true", kIsDefault},
                  {"xla_tpu_enable_async_collective_fusion_multiple_steps=true", kIsDefault},
                  {"xla_tpu_overlap_compute_collective_tc=true", kIsDefault},
                  {"xla_tpu_enable_async_collective_fusion_fuse_all_reduce=true",
                   "alone it does not change the program, with the next one it is refused (rule "
                   "fused-all-reduce)"},
                  {"xla_enable_async_all_reduce=true", "the other half of that pair"},
                  {"xla_lhs_prioritize_async_depth_over_stall=ENABLED", kNoChange},
                  {"xla_tpu_memory_bound_loop_optimizer_options=enabled:true", kNoChange},
                  {"xla_tpu_aggressive_opt_barrier_removal=ENABLED", kNoChange},
                  {"xla_tpu_enable_ag_backward_pipelining=true", kNoChange},
                  {"xla_tpu_enable_ici_ag_pipelining=true",
                   "no more overlap with attention, and more temporaries"},
                  {"xla_tpu_enable_all_experimental_scheduler_features=true",
                   "the same overlap with attention, and more temporaries"}}};
}

Profile dreamer_gpu() {
  return {
      .name = "dreamerv3-gpu",
      .target = "h100",
      .about = "The equivalent of the 15 flags that DreamerV3 puts into XLA_FLAGS",
      .flags = {{"xla_disable_hlo_passes", "rematerialization", "present"},
                {"xla_gpu_all_gather_combine_threshold_bytes", "134217728", "present"},
                {"xla_gpu_all_reduce_combine_threshold_bytes", "134217728", "present"},
                {"xla_gpu_reduce_scatter_combine_threshold_bytes", "67108864", "present"},
                {"xla_gpu_enable_all_gather_combine_by_dim", "false", "present; the default too"},
                {"xla_gpu_enable_reduce_scatter_combine_by_dim", "false",
                 "present; the default too"},
                {"xla_gpu_enable_highest_priority_async_stream", "true",
                 "present; the default too"},
                {"xla_gpu_enable_latency_hiding_scheduler", "true", "present"},
                {"xla_gpu_pipeline_all_gather", "on",
                 "replaces xla_gpu_enable_pipelined_all_gather=true"},
                {"xla_gpu_pipeline_all_reduce", "on",
                 "replaces xla_gpu_enable_pipelined_all_reduce=true"},
                {"xla_gpu_pipeline_reduce_scatter", "on",
                 "replaces xla_gpu_enable_pipelined_reduce_scatter=true"},
                {"xla_gpu_enable_triton_gemm", "false", "present"},
                {"xla_gpu_enable_while_loop_double_buffering", "true", "present"},
                {"xla_gpu_enable_command_buffer", "",
                 "replaces xla_gpu_graph_level=0, which ends the process since jaxlib 0.7.2"}},
      .dropped = {{"xla_gpu_enable_triton_softmax_fusion=false",
                   "ends the process since jaxlib 0.5.3; the compiler has no such switch"}}};
}

Profile dreamer_tpu() {
  return {.name = "dreamerv3-tpu",
          .target = "v6e:2x2",
          .about = "What DreamerV3 sets for TPU (in XLA_FLAGS, where it ends the process)",
          .flags = {{"xla_disable_hlo_passes", "rematerialization", "present"},
                    {"xla_enable_async_collective_permute", "ENABLED", "present"},
                    {"xla_tpu_enable_ag_backward_pipelining", "true", "present"},
                    {"xla_enable_async_all_gather", "ENABLED", "present"}},
          .dropped = {{"xla_tpu_megacore_fusion_allow_ags=false", kIsDefault},
                      {"xla_tpu_enable_data_parallel_all_reduce_opt=true", kIsDefault},
                      {"xla_tpu_data_parallel_opt_different_sized_ops=true", kIsDefault},
                      {"xla_tpu_enable_async_collective_fusion=true", kIsDefault},
                      {"xla_tpu_enable_async_collective_fusion_multiple_steps=true", kIsDefault},
                      {"xla_tpu_overlap_compute_collective_tc=true", kIsDefault}}};
}

std::vector<Profile> all_profiles() {
  return {
      training("wan-train-v5p", "v5p:2x2x1",
               "MaxDiffusion README's training flags for v5p, without refused or default ones"),
      training("wan-train-v6e", "v6e:2x2", "The same for v6e; MaxDiffusion publishes none for it"),
      training("wan-train-tpu7x", "tpu7x:2x2x1",
               "The same for tpu7x; MaxDiffusion publishes none for it"),
      {.name = "wan-generate-v5e",
       .target = "v5e:2x2",
       .about = "MaxDiffusion's fast inference script, without SparseCore",
       .flags = generating_flags(),
       .dropped = without_sparse_core()},
      {.name = "wan-generate-v5p",
       .target = "v5p:2x2x1",
       .about = "MaxDiffusion's fast inference script, without SparseCore",
       .flags = generating_flags(),
       .dropped = without_sparse_core()},
      {.name = "wan-generate-v6e",
       .target = "v6e:2x2",
       .about = "MaxDiffusion's fast inference script for v6e",
       .flags = joined(generating_flags(), sparse_core()),
       .dropped = generating_dropped()},
      {.name = "wan-generate-tpu7x",
       .target = "tpu7x:2x2x1",
       .about = "MaxDiffusion's fast inference script for tpu7x",
       .flags = joined(joined(generating_flags(), sparse_core()),
                       {{"xla_tpu_enable_megacore_fusion", "ENABLED", "as in the script"},
                        {"xla_tpu_megacore_fusion_allow_ags", "true", "as in the script"}}),
       .dropped = joined(generating_dropped(),
                         {{"xla_tpu_dvfs_p_state=7", "timings would not be comparable"}})},
      ulysses_v6e(),
      {.name = "gpu-overlap",
       .target = "h100",
       .about = "Collectives overlapped with compute on several GPUs",
       .flags = {{"xla_gpu_enable_latency_hiding_scheduler", "true", "off by default"},
                 {"xla_gpu_pipeline_all_gather", "on",
                  "parameters are gathered an iteration ahead"},
                 {"xla_gpu_pipeline_all_reduce", "on", "gradients are summed an iteration later"},
                 {"xla_gpu_pipeline_reduce_scatter", "on", "the same where they are split"},
                 {"xla_gpu_enable_while_loop_double_buffering", "true",
                  "two layers a round, so that transfers need no copy"},
                 {"xla_gpu_all_gather_combine_threshold_bytes", "134217728",
                  "a layer's parameters at once"},
                 {"xla_gpu_all_reduce_combine_threshold_bytes", "134217728",
                  "a layer's gradients at once"},
                 {"xla_gpu_reduce_scatter_combine_threshold_bytes", "67108864", "the same"}}},
      {.name = "gpu-deterministic",
       .target = "h100",
       .about = "The same bits in every run on the same GPUs",
       .flags = {{"xla_gpu_deterministic_ops", "true", "only deterministic kernels"},
                 {"xla_gpu_enable_triton_gemm", "false",
                  "Triton's matmuls need autotuning (rule deterministic-triton)"}}},
      dreamer_gpu(),
      dreamer_tpu(),
  };
}

}  // namespace

std::span<const Profile> profiles() {
  static const std::vector<Profile> all = all_profiles();
  return all;
}

}  // namespace kinema::flags
