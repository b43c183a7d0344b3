#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "kinema/cli/commands.h"
#include "kinema/cli/observing.h"
#include "kinema/core/error.h"
#include "kinema/flags/docs.h"
#include "kinema/flags/guard.h"
#include "kinema/flags/profile.h"
#include "kinema/resolve/compiler_flags.h"

namespace kinema::cli {
namespace {

struct FlagsOptions {
  std::vector<std::string> words;
  std::vector<std::string> allow;
  bool fix = false;
  bool json = false;
  bool all = false;
};

constexpr std::string_view kLibtpu = "LIBTPU_INIT_ARGS";
constexpr std::string_view kXla = "XLA_FLAGS";

/// Arguments that are configuration keys, a file, or `target=`; the others are lists of flags, one
/// per variable.
struct Words {
  std::string target;
  std::vector<std::string> config;
  std::optional<resolve::FlagLists> lists;
};

/// True for a list of flags rather than a file or `key=value`: it starts with a dash, a quote or a
/// flag's name, or contains spaces.
bool is_list(const std::string& word) {
  const bool flag = word.starts_with("xla_") && !word.starts_with("xla_flags");
  if (word.empty() || flag || word.find_first_of("-\"'") == 0) {
    return true;
  }
  const std::string key = word.substr(0, word.find('='));
  return key.find_first_of(" \t\n") != std::string::npos;
}

Words sort_words(const std::vector<std::string>& words) {
  Words out;
  const auto lists = [&]() -> resolve::FlagLists& {
    return out.lists ? *out.lists : out.lists.emplace();
  };
  std::string rest;
  for (const std::string& word : words) {
    if (word.starts_with("target=")) {
      out.target = word.substr(std::string_view("target=").size());
    } else if (word.starts_with(std::string(kLibtpu) + "=")) {
      lists().libtpu_init_args = word.substr(kLibtpu.size() + 1);
    } else if (word.starts_with(std::string(kXla) + "=")) {
      lists().xla_flags = word.substr(kXla.size() + 1);
    } else if (is_list(word)) {
      rest += (rest.empty() ? "" : " ") + word;
    } else {
      out.config.push_back(word);
    }
  }
  if (!rest.empty()) {
    const bool tpu =
        !out.target.empty() && resolve::platform_of(out.target).backend == flags::Backend::TPU;
    (tpu ? lists().libtpu_init_args : lists().xla_flags) = rest;
  }
  return out;
}

void print_findings(const flags::Effective& effective) {
  for (const flags::Finding& finding : effective.findings) {
    fmt::print("{}\n", flags::to_text(finding));
    if (!finding.evidence.empty()) {
      fmt::print("  evidence: {}\n", finding.evidence);
    }
  }
}

/// Prints the flags after the errors' remedies are applied.
int print_fixed(const config::Loaded& loaded, const resolve::FlagRequest& what,
                const flags::Effective& first) {
  const resolve::FlagLists given = what.lists.value_or(resolve::FlagLists::of_environment());
  const resolve::FlagLists fixed = resolve::fix_flags(loaded, what);
  const auto print = [](std::string_view variable, const std::string& before,
                        const std::string& now) {
    if (!before.empty() || !now.empty()) {
      fmt::print("{}='{}'\n", variable, now);
    }
  };
  print(kLibtpu, given.libtpu_init_args, fixed.libtpu_init_args);
  print(kXla, given.xla_flags, fixed.xla_flags);
  for (const flags::Finding& finding : first.errors()) {
    warn(flags::to_text(finding));
  }
  return 0;
}

int check_list(const FlagsOptions& options) {
  const Words words = sort_words(options.words);
  config::Loaded loaded = load_arguments(words.config, /*need_file=*/false);
  loaded.config.run.allow_flags.insert(loaded.config.run.allow_flags.end(), options.allow.begin(),
                                       options.allow.end());
  const resolve::FlagRequest what{
      .target = words.target, .program = job_options().program, .lists = words.lists};
  const flags::Effective effective = resolve::resolve_flags(loaded, what);
  const bool wrong = !effective.errors().empty();
  if (options.fix) {
    return print_fixed(loaded, what, effective);
  }
  if (options.json) {
    fmt::print("{}\n", flags::to_json(effective).dump());
  } else {
    print_findings(effective);
    fmt::print("{}: {}\n", effective.platform.text(),
               wrong ? fmt::format("{} wrong", effective.errors().size()) : "nothing is wrong");
  }
  return wrong ? 1 : 0;
}

int dump(const FlagsOptions& options) {
  const Words words = sort_words(options.words);
  check(!words.lists,
        "[flags] dump takes a configuration, key=value and target=; `{}` is a list\n  kinema flags "
        "check reads lists",
        words.lists ? words.lists->libtpu_init_args + words.lists->xla_flags : "");
  const config::Loaded loaded = load_arguments(words.config, /*need_file=*/false);
  const flags::Effective effective =
      resolve::resolve_flags(loaded, {.target = words.target, .program = job_options().program});
  fmt::print("{}", options.json ? flags::to_json(effective).dump() + "\n"
                                : flags::to_text(effective, /*all=*/true));
  for (const flags::Finding& finding : effective.findings) {
    if (finding.severity != flags::Severity::NOTE) {
      warn(flags::to_text(finding));
    }
  }
  return 0;
}

int list_profiles() {
  for (const flags::Profile& profile : flags::profiles()) {
    fmt::print("{:<20} {}\n", profile.name, profile.about);
  }
  return 0;
}

int show_profile(const std::string& name) {
  const flags::Profile& profile = flags::find_profile(name);
  fmt::print("{}", flags::to_text(profile, resolve::platform_of(std::string(profile.target))));
  return 0;
}

}  // namespace

void add_flags(Program& program) {
  Command command = program.add("flags", "Check, explain and choose compiler flags");
  const auto docs = std::make_shared<bool>(false);
  command.flag("--docs", *docs, "print every flag, rule and profile as Markdown");
  command.run([docs] {
    check(*docs, "[flags] a command is missing: check, dump, list or show");
    fmt::print("{}", flags::markdown());
    return 0;
  });

  const auto options = std::make_shared<FlagsOptions>();
  Command checking = command.add(
      "check", "Check a list of flags (or the environment); exit status 1 if there are errors");
  checking.extra_arguments(options->words);  // a list starts with dashes
  checking.footer(
      "kinema flags check \"--xla_enable_async_all_reduce=true ...\" target=v6e:4x4\n"
      "Without a list the environment is checked; XLA_FLAGS=... and LIBTPU_INIT_ARGS=... say "
      "which\n"
      "variable a list is for. CONFIG.yml and key=value are taken into account.");
  checking.flag("--fix", options->fix, "print the list with the remedies applied");
  checking.option("--allow", options->allow, "a rule whose error is ignored").one_value();
  checking.flag("--json", options->json, "print JSON");
  checking.run([options] { return check_list(*options); });

  Command dumping =
      command.add("dump", "Print every flag with its value under a configuration, and its origin");
  dumping.option("CONFIG key=value", options->words, "a configuration, keys, target=v6e:4x4");
  dumping.flag("--json", options->json, "print JSON");
  dumping.run([options] { return dump(*options); });

  command.add("list", "Print the profiles").run(list_profiles);
  Command showing = command.add("show", "Print a profile");
  const auto name = std::make_shared<std::string>();
  showing.option("PROFILE", *name).required();
  showing.run([name] { return show_profile(*name); });
}

}  // namespace kinema::cli
