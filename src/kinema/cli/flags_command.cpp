#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "kinema/cli/command.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/compiler_flags.h"
#include "kinema/core/error.h"
#include "kinema/flags/docs.h"
#include "kinema/flags/fix.h"
#include "kinema/flags/guard.h"
#include "kinema/flags/profile.h"

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

/// A list of flags among the words of the command line, and the variable that it is for.
struct List {
  std::string variable;
  std::string text;
};

/// The words that are keys of the configuration, a file, or `target=`; the others are the list.
struct Words {
  std::string target;
  std::vector<std::string> config;
  std::vector<List> lists;
};

/// Flags, rather than a file or `key=value`: begins with a dash, a quote or a flag's name, or has
/// several words.
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
  std::string rest;
  for (const std::string& word : words) {
    if (word.starts_with("target=")) {
      out.target = word.substr(std::string_view("target=").size());
    } else if (word.starts_with(std::string(kLibtpu) + "=")) {
      out.lists.push_back({std::string(kLibtpu), word.substr(kLibtpu.size() + 1)});
    } else if (word.starts_with(std::string(kXla) + "=")) {
      out.lists.push_back({std::string(kXla), word.substr(kXla.size() + 1)});
    } else if (is_list(word)) {
      rest += (rest.empty() ? "" : " ") + word;
    } else {
      out.config.push_back(word);
    }
  }
  if (!rest.empty()) {
    const bool tpu = !out.target.empty() && platform_of(out.target).backend == flags::Backend::TPU;
    out.lists.push_back({std::string(tpu ? kLibtpu : kXla), rest});
  }
  return out;
}

flags::EnvironmentFlags read_list(std::string_view variable) {
  const char* value = std::getenv(std::string(variable).c_str());
  const std::string text = value == nullptr ? "" : value;
  return variable == kXla ? flags::read_xla_flags(text) : flags::read_libtpu_init_args(text);
}

void print_findings(const flags::Effective& effective) {
  for (const flags::Finding& finding : effective.findings) {
    fmt::print("{}\n", flags::to_text(finding));
    if (!finding.evidence.empty()) {
      fmt::print("  evidence: {}\n", finding.evidence);
    }
  }
}

void set_list(std::string_view variable, const std::string& text) {
  setenv(std::string(variable).c_str(), text.c_str(), /*overwrite=*/1);
}

/// Prints the lists as errors' remedies have them, until there is nothing left to change: a word
/// that is read at last may be wrong in another way.
int print_fixed(const config::Loaded& loaded, const std::string& target,
                const flags::Effective& first) {
  constexpr int kMostRounds = 8;
  std::vector<std::string_view> given;
  for (const std::string_view variable : {kLibtpu, kXla}) {
    const flags::EnvironmentFlags list = read_list(variable);
    if (!list.words.empty() || !list.findings.empty()) {
      given.push_back(variable);
    }
  }
  flags::Effective effective = first;
  for (int round = 0; round < kMostRounds && !effective.errors().empty(); ++round) {
    bool changed = false;
    std::vector<std::pair<std::string_view, std::string>> next;
    for (const std::string_view variable : {kLibtpu, kXla}) {
      const flags::EnvironmentFlags list = read_list(variable);
      next.emplace_back(variable, flags::fixed(list, effective));
      changed = changed || fmt::format("{}", fmt::join(list.words, " ")) != next.back().second;
    }
    if (!changed) {
      break;  // what is wrong is in the configuration
    }
    for (const auto& [variable, text] : next) {
      set_list(variable, text);
    }
    effective = resolve_flags(loaded, {.target = target, .probe = true});
  }
  for (const std::string_view variable : {kLibtpu, kXla}) {
    const char* text = std::getenv(std::string(variable).c_str());
    if (text != nullptr && (*text != '\0' || std::ranges::count(given, variable) > 0)) {
      fmt::print("{}='{}'\n", variable, text);
    }
  }
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
  // What is given to be checked stands for the environment of a run; this process loads no plugin.
  if (!words.lists.empty()) {
    unsetenv(std::string(kLibtpu).c_str());
    unsetenv(std::string(kXla).c_str());
  }
  for (const List& list : words.lists) {
    set_list(list.variable, list.text);
  }
  const flags::Effective effective = resolve_flags(loaded, {.target = words.target, .probe = true});
  const bool wrong = !effective.errors().empty();
  if (options.fix) {
    return print_fixed(loaded, words.target, effective);
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
  for (const List& list : words.lists) {
    fail(
        "[flags] dump takes a configuration, key=value and target=; `{}` is a list\n  kinema flags "
        "check reads lists",
        list.text);
  }
  const config::Loaded loaded = load_arguments(words.config, /*need_file=*/false);
  const flags::Effective effective = resolve_flags(loaded, {.target = words.target, .probe = true});
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
  fmt::print("{}: {}\n\n", profile.name, profile.about);
  std::string list;
  for (const flags::ProfileFlag& flag : profile.flags) {
    fmt::print("  {:<68} {}\n", fmt::format("{}={}", flag.name, flag.value), flag.why);
    list += fmt::format("{}--{}={}", list.empty() ? "" : " ", flag.name, flag.value);
  }
  if (!profile.dropped.empty()) {
    fmt::print("\nleft out:\n");
  }
  for (const flags::DroppedFlag& flag : profile.dropped) {
    fmt::print("  {:<68} {}\n", flag.name, flag.why);
  }
  const bool tpu = platform_of(std::string(profile.target)).backend == flags::Backend::TPU;
  fmt::print("\nfor other programs: {}\n", tpu ? kLibtpu : kXla);
  for (const flags::ProfileFlag& flag : profile.flags) {
    const flags::Flag* known = flags::find_flag(flag.name);
    if (tpu && known->variable == flags::Variable::XLA_FLAGS) {
      fmt::print("  ({} goes into XLA_FLAGS)\n", flag.name);
    }
  }
  fmt::print("  {}\n", list);
  return 0;
}

}  // namespace

void add_flags(Program& program) {
  Command command = program.add("flags", "Check, explain and choose the compilers' flags");
  const auto docs = std::make_shared<bool>(false);
  command.flag("--docs", *docs, "print every flag, rule and profile as Markdown");
  command.run([docs] {
    check(*docs, "[flags] a command is missing: check, dump, list or show");
    fmt::print("{}", flags::markdown());
    return 0;
  });

  const auto options = std::make_shared<FlagsOptions>();
  Command checking = command.add(
      "check", "Say what is wrong with a list of flags (or the environment); exit status 1 if so");
  checking.other_words(options->words);  // the list begins with dashes
  checking.footer(
      "kinema flags check \"--xla_enable_async_all_reduce=true ...\" target=v6e:4x4\n"
      "Without a list the environment is checked; XLA_FLAGS=... and LIBTPU_INIT_ARGS=... say "
      "which\n"
      "variable a list is for. CONFIG.yml and key=value are taken into account.");
  checking.flag("--fix", options->fix, "print the list as the remedies have it");
  checking.option("--allow", options->allow, "a rule whose error is none").one_value();
  checking.flag("--json", options->json, "print JSON");
  checking.run([options] { return check_list(*options); });

  Command dumping = command.add(
      "dump", "Print every flag with the value that a configuration gives it, and its origin");
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
