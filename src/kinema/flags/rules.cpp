#include <algorithm>
#include <array>

#include "kinema/flags/guard.h"

namespace kinema::flags {
namespace {

constexpr std::string_view kFusion = "xla_tpu_enable_async_collective_fusion";
constexpr std::string_view kOverlap = "xla_tpu_overlap_compute_collective_tc";
// Chips whose compiler refuses explicit continuation fusion: all but v5e.
constexpr std::string_view kRefusing = "v4 v5p v6e tpu7x";
constexpr std::string_view kRefusedSince = "0.0.43.2";

const std::vector<Rule>& table() {
  using enum Test;
  static const std::vector<Rule> all = {
      {.id = "fused-all-reduce",
       .backend = Backend::TPU,
       .chips = kRefusing,
       .when = {{"xla_tpu_enable_async_collective_fusion_fuse_all_reduce", ON},
                {"xla_enable_async_all_reduce", ON},
                {kFusion, ON},
                {kOverlap, ON}},
       .what = "asynchronous all-reduces continue inside fusions, which gave NaN in Wan 2.2 on v6e",
       .refused_since = kRefusedSince,
       .evidence = "MaxDiffusion issue 429 (NaN on v6e-16); libtpu 0.0.43.2 to 0.0.52 refuse it on "
                   "every chip but v5e, 0.0.30 and 0.0.42.1 compile it, and all 32 settings of the "
                   "five flags show that no other combination changes the program"},
      {.id = "fused-all-gather",
       .backend = Backend::TPU,
       .chips = kRefusing,
       .when = {{"xla_tpu_enable_async_collective_fusion_fuse_all_gather", ON},
                {"xla_enable_async_all_gather", ON},
                {kFusion, ON},
                {kOverlap, ON}},
       .what = "asynchronous all-gathers continue inside fusions",
       .refused_since = kRefusedSince,
       .evidence = "libtpu 0.0.43.2 to 0.0.52 refuse it on every chip but v5e; the training set of "
                   "MaxDiffusion's README has it"},
      {.id = "fused-reduce-scatter",
       .backend = Backend::TPU,
       .chips = kRefusing,
       .when = {{"xla_tpu_enable_async_collective_fusion_fuse_reduce_scatter", ON},
                {"xla_enable_async_reduce_scatter_fusion", ON},
                {kFusion, ON},
                {kOverlap, ON}},
       .what = "asynchronous reduce-scatters continue inside fusions",
       .refused_since = kRefusedSince,
       .evidence = "libtpu 0.0.51 and 0.0.52 refuse it on every chip but v5e, which compiles it"},
      {.id = "unsafe-random",
       .backend = Backend::TPU,
       .when = {{"xla_tpu_spmd_rng_bit_generator_unsafe", ON}},
       .deterministic = true,
       .what = "the random numbers of a seed would depend on the sharding",
       .evidence = "the flag's purpose"},
      {.id = "autotuned",
       .backend = Backend::GPU,
       .when = {{"xla_gpu_deterministic_ops", OFF}, {"xla_gpu_exclude_nondeterministic_ops", OFF}},
       .deterministic = true,
       .severity = Severity::WARNING,
       .what = "kernels may give different bits in each run",
       .evidence = "defaults of XLA; profile gpu-deterministic sets them"},
      {.id = "deterministic-triton",
       .backend = Backend::GPU,
       .when = {{"xla_gpu_enable_triton_gemm", ON}, {"xla_gpu_deterministic_ops", ON}},
       .severity = Severity::WARNING,
       .what = "Triton's matmuls need autotuning: compiling without the device fails; programs for "
               "one GPU turn them off by default",
       .evidence = "jax-cuda13-pjrt 0.12.0.1, compiled for H100 without one"},
      {.id = "sparse-core-all-gather",
       .backend = Backend::TPU,
       .when = {{"xla_tpu_enable_sparse_core_collective_offload_all_gather", ON},
                {"xla_tpu_enable_async_collective_fusion_fuse_all_gather", ON}},
       .severity = Severity::WARNING,
       .what = "all-gathers are assigned both to the SparseCores and to fusions",
       .evidence = "MaxText's flag library turns the one off where it turns the other on"},
      {.id = "no-memory-slack",
       .backend = Backend::TPU,
       .when = {{"xla_tpu_scheduler_percent_shared_memory_limit", AT_LEAST, 100},
                {"xla_latency_hiding_scheduler_rerun", AT_MOST, 1}},
       .severity = Severity::WARNING,
       .what = "the scheduler uses all of the memory and does not retry if it runs out",
       .evidence = "pytorch/xla issue 5736"},
      {.id = "pinned-clock",
       .backend = Backend::TPU,
       .when = {{"xla_tpu_dvfs_p_state", AT_LEAST, 0}},
       .severity = Severity::WARNING,
       .what = "the clock is pinned: timings are not comparable with other runs",
       .evidence = "MaxDiffusion's fast inference script, which does so on request"},
  };
  return all;
}

constexpr auto kWordRules = std::to_array<WordRule>({
    {"wrong-variable", Severity::ERROR,
     "a flag is in the other environment variable, where it ends the process"},
    {"unknown-flag", Severity::ERROR, "neither the table nor the plugin has the flag"},
    {"removed-flag", Severity::ERROR,
     "the plugin no longer has the flag; the replacement is named"},
    {"bad-value", Severity::ERROR, "the value is not valid for the flag"},
    {"no-dashes", Severity::ERROR, "a flag without dashes, which is silently ignored"},
    {"quoted-flags", Severity::ERROR,
     "quotes around flags, which are then silently ignored, or taken as a file name"},
    {"flags-file", Severity::ERROR, "XLA_FLAGS names a file that cannot be read"},
    {"wrong-backend", Severity::ERROR, "a flag of libtpu is set for another plugin"},
    {"duplicate-flag", Severity::WARNING, "a flag is given twice; the last one is used"},
    {"stray-word", Severity::WARNING, "a word that is not a flag, which is ignored"},
    {"unread-variable", Severity::NOTE, "LIBTPU_INIT_ARGS is set and no TPU is used"},
    {"renamed-flag", Severity::NOTE, "the variable maps an old name to a new one"},
    {"no-effect", Severity::NOTE, "the plugin accepts the flag but ignores it"},
    {"not-in-table", Severity::NOTE, "the plugin has the flag, the table does not"},
    {"default-value", Severity::NOTE, "the flag is set to its default"},
});

}  // namespace

std::span<const Rule> rules() { return table(); }
std::span<const WordRule> word_rules() { return kWordRules; }

bool is_rule(std::string_view id) {
  return std::ranges::count(table(), id, &Rule::id) > 0 ||
         std::ranges::count(kWordRules, id, &WordRule::id) > 0;
}

}  // namespace kinema::flags
