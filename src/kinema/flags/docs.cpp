#include "kinema/flags/docs.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/flags/flag.h"
#include "kinema/flags/guard.h"
#include "kinema/flags/profile.h"
#include "kinema/flags/value.h"

namespace kinema::flags {
namespace {

constexpr std::string_view kHead = R"(# Compiler flags

Made by `kinema flags --docs`. The compilers of XLA take flags from two environment variables, whose parsers differ, and from each
program's options. kinema reads and checks both variables before it loads a plugin, and never changes
them; its own flags go into the programs' options.

| where | read by | an unknown name | words without dashes |
|---|---|---|---|
| `XLA_FLAGS` | every plugin, once, when it starts | ends the process | ignored; the first one is taken as the name of a file |
| `LIBTPU_INIT_ARGS` | libtpu, when it is loaded | ends the process | silently ignored |
| `flags_profile`, `xla_flags` in a configuration | kinema; passed with each program | an error that names the nearest flag | - |

Lowest precedence first: the plugin's default, kinema's own flags in programs for one GPU (`xla_gpu_enable_triton_gemm=false`), the environment, the profile, `xla_flags` in the file, `xla_flags.NAME=VALUE` on the command line.
`xla_flags: {xla_tpu_scoped_vmem_limit_kib: 65536}` in a file; `kinema flags dump CONFIG target=v6e:4x4` prints the result;
a run stores it in `flags.json`.

    kinema flags check "--xla_enable_async_all_reduce=true ..." target=v6e:4x4   # exit status 1 on an error
    kinema flags check "XLA_FLAGS=..." target=h100 --fix                         # prints the corrected list
    kinema flags list                                                            # the profiles
    kinema flags show wan-train-v6e                                              # one of them, also as LIBTPU_INIT_ARGS

A check with an error stops `train` and `generate` before the plugin is loaded; `allow_flags: [RULE]` allows one rule's error.
If the chip's name is unknown (on a TPU machine `TPU_ACCELERATOR_TYPE` gives it), rules apply as for their own chips.
)";

/// `kinema plan` of MaxDiffusion issue 429's program, one row for each set of flags.
constexpr std::string_view kUlysses = R"(
## Ulysses on v6e

The workload of MaxDiffusion issue 429: a denoising step of Wan 2.2 I2V 14B, 1280 x 720, 81 frames, with guidance, over 16 v6e, compiled by libtpu
0.0.51 without a TPU; "chunks" is `ulysses_attention_chunks`. In its first group the report has `xla_tpu_enable_async_collective_fusion`,
`..._fuse_all_reduce` and `..._multiple_steps`, in its second `xla_tpu_overlap_compute_collective_tc` and `xla_enable_async_all_reduce`.

    kinema plan configs/wan22_i2v_a14b.yml target=v6e:4x4 mode=generate attention=ulysses ici_context_parallelism=4 \
      ici_tensor_parallelism=4 ulysses_attention_chunks=3 flags_profile=tpu-v6e-ulysses

Count and GiB of all-to-alls by what overlaps with them in the schedule, over all 40 layers. Rows without a time were compiled only
up to their schedule and buffers.

| flags | chunks | verdict | temporaries, GiB | overlap with attention | overlap with other compute | not overlapped | expected |
|---|---|---|---|---|---|---|---|
| none | 1 | accepted | 1.22 | - | - | 160 (17.30) | 4.07 s |
| first group | 1 | accepted | 1.22 | - | - | 160 (17.30) | 4.07 s |
| second group | 1 | accepted | 1.22 | - | - | 160 (17.30) | 4.07 s |
| both but `..._fuse_all_reduce` | 1 | accepted | 1.22 | - | - | 160 (17.30) | 4.07 s |
| both but `xla_enable_async_all_reduce` | 1 | accepted | 1.22 | - | - | 160 (17.30) | 4.07 s |
| both, or these two alone | any | refused: rule fused-all-reduce, and libtpu | | | | | |
| `xla_tpu_enable_async_all_to_all` | 1 | accepted | 1.22 | - | 80 (8.65) | 80 (8.65) | |
| none | 3 | accepted | 1.19 | - | - | 480 (17.30) |   |
| `xla_tpu_enable_async_all_to_all`, which is tpu-v6e-ulysses | 3 | accepted | 1.19 | 120 (4.33) | 160 (5.77) | 200 (7.21) | 4.00 s |
| and `xla_tpu_enable_all_experimental_scheduler_features` | 3 | accepted | 1.31 | 120 (4.33) | 240 (8.65) | 120 (4.33) | |
| and `xla_tpu_enable_ici_ag_pipelining` in its place | 3 | accepted | 1.37 | 120 (4.33) | 160 (5.77) | 200 (7.21) | |

The five rows without asynchronous all-to-alls and without chunks are one program, instruction by instruction: each group alone, and both without either
flag of the pair, change nothing. With the pair libtpu refuses any program ("Continuation fusion for AllReduce is enabled ... incorrect results, hang,
SDC"). All-gathers (442, 8.61 GiB) and all-reduces (486, 86.98 GiB) overlap with nothing in every row that compiles, `xla_enable_async_all_reduce` or not. Of
371 collective-permutes, most of which pad 10 heads to 12, 209 overlap with other compute without chunks, 289 with three, and none with attention
except under the scheduler's features (42 small ones).

Exchanged all at once, all heads of q, k and v must have arrived before the kernel begins, and its result must be complete before they go back: nothing
overlaps with it. With three groups the other two are exchanged meanwhile. libtpu runs one all-to-all at a time, so each kernel hides one.

Beside `xla_tpu_enable_async_all_to_all`, with three chunks, these give the same program: `..._fuse_all_reduce` or `xla_enable_async_all_reduce`,
`xla_lhs_prioritize_async_depth_over_stall`, `xla_tpu_memory_bound_loop_optimizer_options=enabled:true`, `xla_tpu_aggressive_opt_barrier_removal`,
`xla_tpu_enable_ag_backward_pipelining`. The flags of wan-generate-v5e together (wan-generate-v6e without its SparseCore part) have 360 calls of attention kernels where
240 are needed, with twice their work, and 2.41 GiB of temporaries.

tpu-v6e-ulysses is what is left: the one flag that changes what runs beside attention, with no rule against it. These are schedules; no TPU has run them
here.
)";

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '|' ? std::string("\\|") : std::string(1, c);
  }
  return out;
}

std::string row(const Flag& flag) {
  std::string meaning(flag.meaning);
  if (!flag.hazard.empty()) {
    meaning += fmt::format(". **{}**", flag.hazard);
  }
  if (!flag.replacement.empty()) {
    meaning += fmt::format(". Instead: {}", flag.replacement);
  }
  return fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", flag.name, to_string(flag.variable),
                     cell(expectation(flag)), cell(flag.defaults), cell(meaning),
                     cell(flag.source));
}

std::string table(std::string_view title, std::span<const Flag> flags) {
  std::string out = fmt::format(
      "\n## {}\n\n| flag | variable | values | default by plugin version | what it does | source "
      "|\n|---|---|---|---|---|---|\n",
      title);
  for (const Flag& flag : flags) {
    out += row(flag);
  }
  return out;
}

std::string condition_text(const Condition& condition) {
  switch (condition.test) {
    case Test::ON:
      return fmt::format("`{}` on", condition.flag);
    case Test::OFF:
      return fmt::format("`{}` off", condition.flag);
    case Test::AT_LEAST:
      return fmt::format("`{}` >= {}", condition.flag, condition.bound);
    case Test::AT_MOST:
      break;
  }
  return fmt::format("`{}` <= {}", condition.flag, condition.bound);
}

constexpr std::string_view kSeverity[] = {"note", "warning", "error"};

std::string rule_tables() {
  std::string out =
      "\n## Rules\n\nOver effective values: defaults count too.\n\n"
      "| rule | severity | chips | where all of | means | evidence |\n|---|---|---|---|---|---|\n";
  for (const Rule& rule : rules()) {
    std::string when = rule.deterministic ? "`deterministic: true`" : "";
    for (const Condition& condition : rule.when) {
      when += (when.empty() ? "" : ", ") + condition_text(condition);
    }
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", rule.id,
                       kSeverity[static_cast<size_t>(rule.severity)],
                       rule.chips.empty() ? fmt::format("{}: all", to_string(rule.backend))
                                          : std::string(rule.chips),
                       when, rule.what, rule.evidence);
  }
  out += "\nOver words and names:\n\n| rule | severity | means |\n|---|---|---|\n";
  for (const WordRule& rule : word_rules()) {
    out += fmt::format("| {} | {} | {} |\n", rule.id, kSeverity[static_cast<size_t>(rule.severity)],
                       rule.what);
  }
  return out;
}

std::string profile_tables() {
  std::string out = "\n## Profiles\n\nSet with `flags_profile: NAME`.\n";
  for (const Profile& profile : profiles()) {
    out += fmt::format("\n### {}\n\n{}.\n\n| flag | value | why |\n|---|---|---|\n", profile.name,
                       profile.about);
    for (const ProfileFlag& flag : profile.flags) {
      out += fmt::format("| `{}` | `{}` | {} |\n", flag.name,
                         flag.value.empty() ? "(an empty list)" : flag.value, flag.why);
    }
    for (const DroppedFlag& flag : profile.dropped) {
      out += fmt::format("| `{}` | left out | {} |\n", flag.name, flag.why);
    }
  }
  return out;
}

}  // namespace

std::string markdown() {
  return std::string(kHead) + rule_tables() + profile_tables() + std::string(kUlysses) +
         table("Flags of libtpu", tpu_flags()) + table("Flags of XLA", xla_flags()) +
         "\n`libtpu 0.0.30: X` holds from that version on until the next one named; `xla` stands "
         "for plugins without an entry\nof their own. `unset`: the compiler decides by target. "
         "`renamed`: XLA_FLAGS maps it to the new name, programs have only that.\n";
}

}  // namespace kinema::flags
