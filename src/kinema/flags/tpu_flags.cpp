#include <array>

#include "kinema/flags/flag.h"

// Defaults of libtpu 0.0.30, 0.0.42.1, 0.0.43.2 and 0.0.51 as their compilers print them. A single
// entry also holds for the newer versions; a single 0.0.51 was read only from that version.
namespace kinema::flags {
namespace {

using enum Type;

constexpr Variable kInit = Variable::LIBTPU_INIT_ARGS;
constexpr std::string_view kTrue = "libtpu 0.0.30: true";
constexpr std::string_view kFalse = "libtpu 0.0.30: false";
constexpr std::string_view kUnset = "libtpu 0.0.30: unset";
constexpr std::string_view kAuto = "libtpu 0.0.30: AUTO";
constexpr std::string_view kDisabled = "libtpu 0.0.30: DISABLED";
constexpr std::string_view kMinusOne = "libtpu 0.0.30: -1";
constexpr std::string_view kNewFalse = "libtpu 0.0.51: false";

// Where a flag was found; the default's source is the note above.
constexpr std::string_view kAll = "MaxDiffusion README and scripts, DreamerV3, NaN report";
constexpr std::string_view kTrain = "MaxDiffusion README (training, v5p) and scripts";
constexpr std::string_view kTrainD3 = "MaxDiffusion README (training, v5p), DreamerV3";
constexpr std::string_view kReport = "NaN report, MaxDiffusion README (inference)";
constexpr std::string_view kFast = "MaxDiffusion fast inference script";
constexpr std::string_view kMeasured = "libtpu 0.0.51 measured";

constexpr auto kFlags = std::to_array<Flag>({
    // Overlap of collectives and arithmetic.
    {"xla_tpu_enable_async_collective_fusion", Backend::TPU, kInit, BOOL, kTrue,
     "continuation fusion: a collective's transfer continues inside the fusions scheduled after it",
     "main switch; off disables all three continuation fusions", kAll},
    {"xla_tpu_enable_async_collective_fusion_fuse_all_gather", Backend::TPU, kInit, TRISTATE, kAuto,
     "continuation fusion of all-gathers; AUTO decides by target",
     "with asynchronous all-gathers on: refused except on v5e (rule fused-all-gather)", kTrain},
    {"xla_tpu_enable_async_collective_fusion_fuse_all_reduce", Backend::TPU, kInit, BOOL, kFalse,
     "continuation fusion of all-reduces",
     "with asynchronous all-reduces: NaN or refused (rule fused-all-reduce)", kReport},
    {"xla_tpu_enable_async_collective_fusion_fuse_reduce_scatter", Backend::TPU, kInit, BOOL,
     kNewFalse, "continuation fusion of reduce-scatters",
     "with xla_enable_async_reduce_scatter_fusion: refused (rule fused-reduce-scatter)", kMeasured},
    {"xla_tpu_enable_async_collective_fusion_multiple_steps", Backend::TPU, kInit, BOOL, kTrue,
     "one collective may span several fusions", "", kAll},
    {"xla_tpu_overlap_compute_collective_tc", Backend::TPU, kInit, BOOL, kTrue,
     "compute and communication overlap on a TensorCore", "off ends all continuation fusion", kAll},
    {"xla_enable_async_all_gather", Backend::TPU, kInit, TRISTATE, kAuto,
     "all-gathers are asynchronous", "see ..._fuse_all_gather", kTrainD3},
    {"xla_enable_async_all_reduce", Backend::TPU, kInit, TRISTATE, kDisabled,
     "all-reduces are asynchronous", "see ..._fuse_all_reduce; harmless by itself", kReport},
    {"xla_enable_async_collective_permute", Backend::TPU, kInit, TRISTATE, kAuto,
     "permutes are asynchronous (ring attention)", "", kTrainD3},
    {"xla_enable_async_reduce_scatter_fusion", Backend::TPU, kInit, TRISTATE,
     "libtpu 0.0.51: DISABLED", "reduce-scatters are asynchronous", "see ..._fuse_reduce_scatter",
     kMeasured},
    {"xla_tpu_enable_async_all_to_all", Backend::TPU, kInit, BOOL, kFalse,
     "all-to-alls are asynchronous (Ulysses attention)",
     "MaxDiffusion's README puts it in XLA_FLAGS, where it ends the process", kTrain},
    {"xla_tpu_enable_data_parallel_all_reduce_opt", Backend::TPU, kInit, BOOL, kTrue,
     "gradient all-reduces between slices overlap more", "", kTrainD3},
    {"xla_tpu_data_parallel_opt_different_sized_ops", Backend::TPU, kInit, BOOL, kTrue,
     "the same for collectives of different sizes, across iterations", "memory", kTrainD3},
    {"xla_tpu_enable_ag_backward_pipelining", Backend::TPU, kInit, BOOL, kFalse,
     "all-gathers, mostly between slices, move to an earlier iteration of a scan", "memory",
     kTrainD3},
    {"xla_tpu_enable_ici_ag_pipelining", Backend::TPU, kInit, BOOL, kUnset,
     "the same inside a slice", "memory", kFast},
    {"xla_tpu_enable_megacore_fusion", Backend::TPU, kInit, TRISTATE, kDisabled,
     "fusions that span the two cores of a chip",
     "the NaN report measured it alone and with either group: right results",
     "NaN report, MaxDiffusion fast inference script"},
    {"xla_tpu_megacore_fusion_allow_ags", Backend::TPU, kInit, BOOL, kFalse,
     "such fusions include all-gathers", "", kTrainD3},
    {"xla_tpu_assign_all_reduce_scatter_layout", Backend::TPU, kInit, BOOL, kFalse,
     "layouts are assigned to an all-reduce whose result is sliced", "", kTrain},
    {"xla_tpu_use_minor_sharding_for_major_trivial_input", Backend::TPU, kInit, BOOL, kFalse,
     "layout of such an all-reduce's input when its major axis is 1", "", kTrain},
    {"xla_tpu_relayout_group_size_threshold_for_reduce_scatter", Backend::TPU, kInit, INTEGER,
     "libtpu 0.0.30: 9223372036854775807",
     "reduce-scatters over groups of at least this size get another layout", "", kTrain},
    {"xla_jf_crs_combiner_threshold_in_bytes", Backend::TPU, kInit, INTEGER,
     "libtpu 0.0.51: 125829120", "all-reduces are merged up to this size", "", kMeasured},
    // Scheduling and memory.
    {"xla_tpu_enable_latency_hiding_scheduler", Backend::TPU, kInit, BOOL, kTrue,
     "the scheduler hides latency behind compute", "", kFast},
    {"xla_tpu_enable_all_experimental_scheduler_features", Backend::TPU, kInit, BOOL, kFalse,
     "a set of scheduler options", "its contents differ between versions", kTrain},
    {"xla_tpu_enable_scheduler_memory_pressure_tracking", Backend::TPU, kInit, TRISTATE,
     "libtpu 0.0.30: AUTO; libtpu 0.0.42.1: ENABLED",
     "the scheduler counts the memory of its instruction order", "",
     "tuning page, MaxDiffusion README (training, v5p)"},
    {"xla_tpu_scheduler_percent_shared_memory_limit", Backend::TPU, kInit, INTEGER,
     "libtpu 0.0.30: 95", "percent of the memory that a schedule may use",
     "100 leaves no reserve for errors of the estimate", kTrain},
    {"xla_latency_hiding_scheduler_rerun", Backend::TPU, kInit, INTEGER, "libtpu 0.0.30: 1",
     "how often a schedule that runs out of memory is retried with 0.9 of the budget",
     "not known to libtpu of early 2025", "tuning page, MaxDiffusion README (training, v5p)"},
    {"xla_lhs_prioritize_async_depth_over_stall", Backend::TPU, kInit, TRISTATE, kDisabled,
     "the scheduler prefers many concurrent transfers to few stalls", "", kTrain},
    {"xla_tpu_host_transfer_overlap_limit", Backend::TPU, kInit, INTEGER, "libtpu 0.0.30: 32",
     "concurrent transfers to and from the host", "the lists' 24 is less than the default", kTrain},
    {"xla_max_concurrent_host_send_recv", Backend::TPU, kInit, INTEGER, kMinusOne,
     "concurrent sends to and receives from the host; -1: the compiler's choice", "", kTrain},
    {"xla_should_allow_loop_variant_parameter_in_chain", Backend::TPU, kInit, TRISTATE, kDisabled,
     "loops with transfers to the host are pipelined through parameters that change", "", kTrain},
    {"xla_should_add_loop_invariant_op_in_chain", Backend::TPU, kInit, TRISTATE, kDisabled,
     "and through instructions that do not change", "", kTrain},
    {"xla_tpu_aggressive_opt_barrier_removal", Backend::TPU, kInit, TRISTATE, kDisabled,
     "optimization barriers are dropped early",
     "barriers prevent rematerialised values from being kept: memory may grow", kTrain},
    {"xla_tpu_scoped_vmem_limit_kib", Backend::TPU, kInit, INTEGER, kMinusOne,
     "on-chip vector memory (VMEM) that one instruction may use, in KiB; the rest prefetches",
     "not checked against the chip; kernels with a limit of their own must agree with it",
     "tuning page, MaxDiffusion README (training, v5p) and scripts"},
    {"xla_tpu_memory_bound_loop_optimizer_options", Backend::TPU, kInit, TEXT,
     "libtpu 0.0.51: ", "loops bound by memory: `enabled:true` and further options", "", kFast},
    // Arithmetic and random numbers.
    {"xla_tpu_enable_dot_strength_reduction", Backend::TPU, kInit, BOOL, kTrue,
     "small matmuls become multiplications and sums", "", kFast},
    {"xla_tpu_spmd_rng_bit_generator_unsafe", Backend::TPU, kInit, BOOL, kFalse,
     "each device makes random bits for its own shard",
     "the numbers of a seed then depend on the sharding (rule unsafe-random)", kFast},
    {"xla_tpu_enable_windowed_einsum_for_all_gather", Backend::TPU, kInit, BOOL,
     "libtpu 0.0.51: true", "a matmul with a gathered operand is done window by window", "",
     kMeasured},
    {"xla_tpu_decompose_all_gather_einsum", Backend::TPU, kInit, BOOL, kNewFalse,
     "such a matmul is split into pieces", "", kMeasured},
    {"xla_tpu_decompose_einsum_reduce_scatter", Backend::TPU, kInit, BOOL, kNewFalse,
     "a matmul whose result is scattered is split into pieces", "", kMeasured},
    {"xla_jf_spmd_threshold_for_windowed_einsum_mib", Backend::TPU, kInit, INTEGER,
     "libtpu 0.0.51: -1", "operands above this size are done window by window", "", kMeasured},
    // SparseCore.
    {"xla_tpu_enable_sparse_core_collective_offload_all_gather", Backend::TPU, kInit, TRISTATE,
     kAuto, "all-gathers run on the SparseCores",
     "MaxText then turns continuation fusion of all-gathers off", kFast},
    {"xla_tpu_enable_sparse_core_collective_offload_2d_all_gather", Backend::TPU, kInit, BOOL,
     kUnset, "the same over two axes of the network", "", kFast},
    {"xla_tpu_enable_sparse_core_collective_offload_3d_all_gather", Backend::TPU, kInit, BOOL,
     kUnset, "the same over three axes", "", kFast},
    {"xla_tpu_enable_sparse_core_collective_offload_all_reduce", Backend::TPU, kInit, TRISTATE,
     "libtpu 0.0.30: DISABLED; libtpu 0.0.42.1: AUTO", "all-reduces run on the SparseCores", "",
     kFast},
    {"xla_tpu_enable_sparse_core_collective_offload_reduce_scatter", Backend::TPU, kInit, TRISTATE,
     "libtpu 0.0.30: DISABLED; libtpu 0.0.42.1: AUTO", "reduce-scatters run on the SparseCores", "",
     kFast},
    {"xla_tpu_enable_sparse_core_collective_aggregator", Backend::TPU, kInit, BOOL, kUnset,
     "collectives on SparseCores are merged", "", kFast},
    {"xla_tpu_enable_sparse_core_offload_queuing_in_lhs", Backend::TPU, kInit, BOOL, kUnset,
     "the scheduler queues work for SparseCores", "", kFast},
    {"xla_tpu_enable_sparse_core_reduce_scatter_v2", Backend::TPU, kInit, BOOL, kUnset,
     "version 2 of the reduce-scatter for SparseCores", "", kFast},
    {"xla_tpu_enable_concurrent_sparse_core_offloading", Backend::TPU, kInit, BOOL, kUnset,
     "several collectives at a time on SparseCores", "", kFast},
    {"xla_tpu_use_single_sparse_core_for_all_gather_offload", Backend::TPU, kInit, BOOL, kUnset,
     "all-gathers use one SparseCore", "", kFast},
    {"xla_tpu_sparse_core_all_gather_latency_multiplier", Backend::TPU, kInit, NUMBER,
     "libtpu 0.0.30: 1", "factor on the scheduler's cost of an all-gather there", "", kFast},
    {"xla_tpu_sparse_core_reduce_scatter_latency_multiplier", Backend::TPU, kInit, NUMBER, kUnset,
     "the same for reduce-scatters", "", kFast},
    // Looking inside.
    {"xla_tpu_dvfs_p_state", Backend::TPU, kInit, INTEGER, kMinusOne, "pins clock and power state",
     "timings are not comparable with other runs", kFast},
    {"xla_enable_mxu_trace", Backend::TPU, kInit, BOOL, kFalse, "traces the matrix unit",
     "MaxDiffusion sets it in XLA_FLAGS, where it ends child processes",
     "MaxDiffusion generate script (profiling)"},
    {.name = "xla_jf_dump_llo_html",
     .backend = Backend::TPU,
     .variable = kInit,
     .type = BOOL,
     .defaults = kNewFalse,
     .meaning = "writes the low-level program as HTML",
     .hazard = "MaxDiffusion sets it in XLA_FLAGS, where it ends child processes",
     .source = "MaxDiffusion generate script (profiling)",
     .per_program = false},
    {"xla_tpu_enable_llo_profiling", Backend::TPU, kInit, BOOL,
     "libtpu 0.0.30: absent; libtpu 0.0.42.1: unset", "profiles the low-level program",
     "MaxDiffusion sets it in XLA_FLAGS, where it ends child processes",
     "MaxDiffusion generate script (profiling)"},
    {"xla_tpu_detect_nan", Backend::TPU, Variable::BOTH, BOOL, "libtpu 0.0.51: false; xla: false",
     "stops at the first NaN", "slow", kMeasured},
    {"xla_tpu_detect_llo_nan", Backend::TPU, kInit, BOOL, kNewFalse,
     "stops at the first NaN of the low-level program", "slow", kMeasured},
    {"xla_tpu_check_nan_on_reduce", Backend::TPU, kInit, BOOL, kNewFalse,
     "checks reductions for NaN", "slow", kMeasured},
    {"xla_tpu_enable_sdc_checker", Backend::TPU, kInit, BOOL, kNewFalse,
     "computes twice and compares, to find hardware errors", "slow", kMeasured},
    {"xla_tpu_sdc_check_halt_on_detection", Backend::TPU, kInit, BOOL, "libtpu 0.0.51: true",
     "stops when the two differ", "", kMeasured},
    {"xla_tpu_sdc_check_repeat_count", Backend::TPU, kInit, INTEGER, "libtpu 0.0.51: 1",
     "how often the work is repeated", "", kMeasured},
    {"xla_tpu_sdc_replicate_llo", Backend::TPU, kInit, BOOL, kNewFalse,
     "repeats the low-level program", "", kMeasured},
});

}  // namespace

std::span<const Flag> tpu_flags() { return kFlags; }

}  // namespace kinema::flags
