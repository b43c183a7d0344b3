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
program's options. kinema reads both variables before it loads a plugin, says what is wrong with them, and never rewrites
them; what it sets itself goes into the programs' options.

| where | who reads it | an unknown name | words without dashes |
|---|---|---|---|
| `XLA_FLAGS` | every plugin, once, when it starts | ends the process | left out; the first one is taken as the name of a file |
| `LIBTPU_INIT_ARGS` | libtpu, when it is loaded | ends the process | left out without a word |
| `flags_profile`, `xla_flags` in a configuration | kinema; handed over with each program | an error that names the nearest flag | - |

Lowest first: the plugin's default, the environment, the profile, `xla_flags` in the file, `xla_flags.NAME=VALUE` on the command line.
`xla_flags: {xla_tpu_scoped_vmem_limit_kib: 65536}` in a file; `kinema flags dump CONFIG target=v6e:4x4` prints what it comes to;
a run keeps it in `flags.json`.

    kinema flags check "--xla_enable_async_all_reduce=true ..." target=v6e:4x4   # exit status 1 on an error
    kinema flags check "XLA_FLAGS=..." target=h100 --fix                         # prints the list as the remedies have it
    kinema flags list                                                            # the profiles
    kinema flags show wan-train-v6e                                              # one of them, as LIBTPU_INIT_ARGS too

A check with an error stops `train` and `generate` before the plugin is loaded; `allow_flags: [RULE]` lets one rule pass.
Without a chip's name (`TPU_ACCELERATOR_TYPE` says it on a TPU machine) rules count as if it were one that they are about.
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
  return std::string(kHead) + rule_tables() + profile_tables() +
         table("Flags of libtpu", tpu_flags()) + table("Flags of XLA", xla_flags()) +
         "\n`libtpu 0.0.30: X` holds from that version on until the next one named; `xla` stands "
         "for plugins without an entry\nof their own. `unset`: the compiler decides by target. "
         "`renamed`: XLA_FLAGS maps it to the new name, programs have only that.\n";
}

}  // namespace kinema::flags
