#include <array>

#include "kinema/flags/flag.h"

// Flags of XLA's DebugOptions. Defaults are those of the flag list of jaxlib 0.11.0; support was
// tried with the plugins xla-cpu-pjrt 0.0.1, jax-cuda13-pjrt 0.12.0.1 and libtpu 0.0.51.
namespace kinema::flags {
namespace {

using enum Type;

constexpr Variable kXla = Variable::XLA_FLAGS;
constexpr std::string_view kTrue = "xla: true";
constexpr std::string_view kFalse = "xla: false";
constexpr std::string_view kEmpty = "xla: ";
constexpr std::string_view kRemoved = "xla: removed";
// From jax-cuda13-pjrt 0.12.0.1 on XLA_FLAGS maps the old switch to the new word; the compiler's
// options have only the new one.
constexpr std::string_view kOldPipeline =
    "xla: false; cuda 0.12.0.1: renamed; libtpu 0.0.30: false; libtpu 0.0.51: renamed";
constexpr std::string_view kOldPipelineOn =
    "xla: true; cuda 0.12.0.1: renamed; libtpu 0.0.30: true; libtpu 0.0.51: renamed";
constexpr std::string_view kPipeline =
    "xla: absent; cuda 0.12.0.1: default; libtpu 0.0.30: absent; libtpu 0.0.51: default";
constexpr std::string_view kModes = "default | off | on | explicit";
constexpr std::string_view kModeWire = "COLLECTIVE_PIPELINING_MODE_";

constexpr std::string_view kDreamer = "DreamerV3";
constexpr std::string_view kCuda = "jax-cuda13-pjrt 0.12.0.1 measured";
constexpr std::string_view kList = "flag list of jaxlib 0.11.0";
constexpr std::string_view kOlder = "flag lists of older jaxlib";
constexpr std::string_view kAsync =
    "nothing: collectives are asynchronous; xla_gpu_disable_async_collectives lists exceptions";

constexpr auto kFlags = std::to_array<Flag>({
    // Of every compiler.
    {"xla_disable_hlo_passes", Backend::ANY, kXla, WORDS, kEmpty, "names of passes to skip",
     "names are not checked; a mistyped one does nothing", "DreamerV3 (rematerialization)"},
    {"xla_allow_excess_precision", Backend::ANY, kXla, BOOL, kTrue,
     "bfloat16 values between instructions may stay float32",
     "results depend on fusion; turn it off to compare two programs", kList},
    {"xla_backend_optimization_level", Backend::ANY, kXla, INTEGER, "xla: 3",
     "effort of the code generator, 0 to 3", "", kList},
    {"xla_llvm_disable_expensive_passes", Backend::ANY, kXla, BOOL, kFalse,
     "skips slow passes of LLVM", "", kList},
    {"xla_dump_to", Backend::ANY, kXla, TEXT, kEmpty,
     "folder for programs before and after each stage", "", "DreamerV3 (xladump)"},
    {"xla_dump_hlo_as_text", Backend::ANY, kXla, BOOL, kFalse, "dumps programs as text", "", kList},
    {"xla_dump_hlo_as_long_text", Backend::ANY, kXla, BOOL, kTrue, "dumps them as long text", "",
     "DreamerV3 (xladump)"},
    // Of the CPU compiler.
    {"xla_cpu_max_isa", Backend::CPU, kXla, TEXT, kEmpty,
     "the largest instruction set that programs use: SSE4_2, AVX2, AVX512, AVX512_BF16, AMX ...; "
     "empty: the "
     "processor's",
     "kernels keep theirs: cpu_isa limits both", kList},
    {"xla_cpu_use_fusion_emitters", Backend::CPU, kXla, BOOL,
     "xla: true; cuda 0.12.0.1: absent; libtpu 0.0.51: removed",
     "code of fused operations by the newer generator",
     "off: float8 values are rounded twice, some to a neighbour; code that is not optimised "
     "compiles in "
     "half the time",
     kList},
    {"xla_cpu_parallel_codegen_split_count", Backend::CPU, kXla, INTEGER, "xla: 32",
     "parts of a program that LLVM compiles at the same time",
     "1: code that is not optimised compiles with a quarter less processor time, on one core",
     kList},
    {"xla_cpu_use_xnnpack", Backend::CPU, kXla, BOOL, kTrue,
     "products by XNNPACK, which packs a weight once",
     "wrong results: after an in-place update of a weight, products still use its first value",
     kList},
    {"xla_cpu_enable_fast_math", Backend::CPU, kXla, BOOL, kFalse,
     "arithmetic that violates IEEE 754", "NaN and infinity lose their meaning", kList},
    {"xla_force_host_platform_device_count", Backend::CPU, kXla, INTEGER, "xla: 1; cpu: ignored",
     "number of devices of a CPU client", "", "DreamerV3 (mock_devices)", "",
     "cpu_device_count=N in the configuration"},
    // Of the GPU compiler: collectives.
    {"xla_gpu_all_gather_combine_threshold_bytes", Backend::GPU, kXla, INTEGER, "xla: 31457287",
     "all-gathers are merged up to this size", "fewer launches, less overlap, more memory",
     kDreamer},
    {"xla_gpu_all_reduce_combine_threshold_bytes", Backend::GPU, kXla, INTEGER, "xla: 31457287",
     "all-reduces are merged up to this size", "as above", kDreamer},
    {"xla_gpu_reduce_scatter_combine_threshold_bytes", Backend::GPU, kXla, INTEGER, "xla: 31457287",
     "reduce-scatters are merged up to this size", "as above", kDreamer},
    {"xla_gpu_enable_all_gather_combine_by_dim", Backend::GPU, kXla, BOOL, kFalse,
     "only all-gathers of the same axis are merged", "", kDreamer},
    {"xla_gpu_enable_reduce_scatter_combine_by_dim", Backend::GPU, kXla, BOOL, kFalse,
     "only reduce-scatters of the same axis are merged", "", kDreamer},
    {"xla_gpu_enable_highest_priority_async_stream", Backend::GPU, kXla, BOOL, kTrue,
     "the stream of asynchronous collectives has the highest priority", "", kDreamer},
    {"xla_gpu_enable_latency_hiding_scheduler", Backend::GPU, kXla, BOOL, kFalse,
     "the scheduler hides collectives behind compute", "needs free memory", kDreamer},
    {"xla_gpu_enable_pipelined_all_gather", Backend::GPU, kXla, BOOL, kOldPipeline,
     "all-gathers of a loop move to the iteration before", "", kDreamer, "",
     "xla_gpu_pipeline_all_gather=on"},
    {"xla_gpu_enable_pipelined_all_reduce", Backend::GPU, kXla, BOOL, kOldPipeline,
     "all-reduces of a loop move to the iteration after", "", kDreamer, "",
     "xla_gpu_pipeline_all_reduce=on"},
    {"xla_gpu_enable_pipelined_reduce_scatter", Backend::GPU, kXla, BOOL, kOldPipelineOn,
     "reduce-scatters of a loop move to the iteration after", "", kDreamer, "",
     "xla_gpu_pipeline_reduce_scatter=on"},
    {.name = "xla_gpu_pipeline_all_gather",
     .backend = Backend::GPU,
     .variable = kXla,
     .type = WORD,
     .defaults = kPipeline,
     .meaning = "all-gathers of a loop: `on` moves them to the iteration before",
     .source = kCuda,
     .words = kModes,
     .wire = kModeWire,
     .any_case = true},
    {.name = "xla_gpu_pipeline_all_reduce",
     .backend = Backend::GPU,
     .variable = kXla,
     .type = WORD,
     .defaults = kPipeline,
     .meaning = "all-reduces of a loop: `on` moves them to the iteration after",
     .source = kCuda,
     .words = kModes,
     .wire = kModeWire,
     .any_case = true},
    {.name = "xla_gpu_pipeline_reduce_scatter",
     .backend = Backend::GPU,
     .variable = kXla,
     .type = WORD,
     .defaults = kPipeline,
     .meaning = "reduce-scatters of a loop: `on` moves them to the iteration after",
     .source = kCuda,
     .words = kModes,
     .wire = kModeWire,
     .any_case = true},
    {"xla_gpu_disable_async_collectives", Backend::GPU, kXla, WORDS, kEmpty,
     "collectives that are not asynchronous", "", kList},
    {"xla_gpu_enable_async_collectives", Backend::GPU, kXla, BOOL, kRemoved,
     "asynchronous collectives", "ends the process", kOlder, "", kAsync},
    {"xla_gpu_enable_async_all_gather", Backend::GPU, kXla, BOOL, kRemoved,
     "asynchronous all-gathers", "ends the process", "DreamerV3 (in a comment)", "", kAsync},
    {"xla_gpu_enable_async_all_reduce", Backend::GPU, kXla, BOOL, kRemoved,
     "asynchronous all-reduces", "ends the process", kOlder, "", kAsync},
    {"xla_gpu_enable_async_reduce_scatter", Backend::GPU, kXla, BOOL, kRemoved,
     "asynchronous reduce-scatters", "ends the process", "DreamerV3 (in a comment)", "", kAsync},
    {"xla_gpu_enable_async_all_to_all", Backend::GPU, kXla, BOOL, kRemoved,
     "asynchronous all-to-alls", "ends the process", kOlder, "", kAsync},
    {"xla_gpu_enable_pipelined_collectives", Backend::GPU, kXla, BOOL,
     "xla: removed; cpu 0.0.1: false", "pipelining of all collectives", "ends the process", kOlder,
     "", "xla_gpu_enable_latency_hiding_scheduler=true"},
    // Of the GPU compiler: arithmetic, graphs, choice of kernels.
    {"xla_gpu_enable_triton_gemm", Backend::GPU, kXla, BOOL, kTrue,
     "matmuls by Triton, where it is faster; off: cuBLAS, the default in programs for one GPU", "",
     kDreamer},
    {"xla_gpu_enable_triton_softmax_fusion", Backend::GPU, kXla, BOOL, kRemoved,
     "softmax by Triton", "ends the process", "DreamerV3", "",
     "nothing: gone since jaxlib 0.5.3, the compiler decides"},
    {"xla_gpu_graph_level", Backend::GPU, kXla, INTEGER, kRemoved, "CUDA graphs, 0: none",
     "ends the process", "DreamerV3", "",
     "xla_gpu_enable_command_buffer= (an empty list means no graphs)"},
    {"xla_gpu_enable_command_buffer", Backend::GPU, kXla, WORDS,
     "xla: fusion,cublas,cublaslt,custom_call,cudnn,conditional,dynamic_slice_fusion",
     "operations in CUDA graphs; an empty list: none", "", kList,
     "fusion | cublas | cublaslt | custom_call | cudnn | conditional | while | collectives | "
     "dynamic_slice_fusion | convolution | host_execute | collectives_kernel"},
    {"xla_gpu_enable_while_loop_double_buffering", Backend::GPU, kXla, BOOL, kFalse,
     "loops are unrolled by two, which saves a copy", "twice the loop's buffers", kDreamer},
    {"xla_gpu_autotune_level", Backend::GPU, kXla, INTEGER, "xla: 4",
     "0: no autotuning; up to 4: autotuning, with a comparison of results",
     "the next run may choose other kernels", "DreamerV3 (autotune)"},
    {"xla_gpu_deterministic_ops", Backend::GPU, kXla, BOOL, kFalse,
     "only deterministic kernels, without autotuning",
     "fails where an instruction has no such kernel", "DreamerV3 (deterministic)"},
    {"xla_gpu_exclude_nondeterministic_ops", Backend::GPU, kXla, BOOL, kFalse,
     "only deterministic kernels, with autotuning", "fails as above", kList},
    {"xla_gpu_per_fusion_autotune_cache_dir", Backend::GPU, kXla, TEXT, kEmpty,
     "folder for autotuning results", "", kList},
    {"xla_gpu_load_autotune_results_from", Backend::GPU, kXla, TEXT, kEmpty,
     "file of autotuning results to use", "", kList},
    {"xla_gpu_dump_autotune_results_to", Backend::GPU, kXla, TEXT, kEmpty,
     "file to write autotuning results to", "", kList},
    {"xla_gpu_shard_autotuning", Backend::GPU, kXla, BOOL, kTrue, "processes share the autotuning",
     "they need a shared store", kList},
    {"xla_gpu_memory_limit_slop_factor", Backend::GPU, kXla, INTEGER, "xla: 95",
     "percent of the memory that the scheduler uses", "", kList},
    {"xla_gpu_enable_cudnn_fmha", Backend::GPU, kXla, BOOL, "xla: ignored", "attention by cuDNN",
     "", kList, "", "nothing: it no longer has an effect"},
    {"xla_gpu_simplify_all_fp_conversions", Backend::GPU, kXla, BOOL, kRemoved,
     "pairs of conversions are dropped", "ends the process", kOlder, "",
     "xla_allow_excess_precision"},
    {.name = "xla_gpu_detect_nan",
     .backend = Backend::GPU,
     .variable = kXla,
     .type = WORD,
     .defaults = "xla: none",
     .meaning = "checks for NaN after each kernel",
     .hazard = "slow; in XLA_FLAGS only lower case",
     .source = kList,
     .words = "none | warning | fail",
     .wire = "DETECTION_MODE_"},
    {.name = "xla_gpu_detect_inf",
     .backend = Backend::GPU,
     .variable = kXla,
     .type = WORD,
     .defaults = "xla: none",
     .meaning = "checks for infinity after each kernel",
     .hazard = "as above; plugins of late 2025 may lack it",
     .source = kList,
     .words = "none | warning | fail",
     .wire = "DETECTION_MODE_"},
});

}  // namespace

std::span<const Flag> xla_flags() { return kFlags; }

}  // namespace kinema::flags
