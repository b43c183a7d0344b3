#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "kinema/agents/plan.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/observing.h"
#include "kinema/cli/stopping.h"
#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/planning/compile_job.h"
#include "kinema/plans/plan.h"
#include "kinema/runtime/executable_file.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// The parsed command line.
struct Words {
  std::vector<std::string> words;
  std::vector<std::string> flags;
  bool json = false;
  bool sweep = false;
  bool tiles = false;
  bool no_remedies = false;
  plans::SweepChoices choices;
};

/// Removes `key=value` from the words and returns the value; empty if absent.
std::string take(std::vector<std::string>& words, const std::string& key) {
  std::string value;
  std::erase_if(words, [&](const std::string& word) {
    const bool found = word.starts_with(key + "=");
    value = found ? word.substr(key.size() + 1) : value;
    return found;
  });
  return value;
}

plans::PlanOptions read_words(std::vector<std::string>& words) {
  const std::string target = take(words, "target");
  check(!target.empty(), "[plan] for which devices? give target=, e.g. target=v6e:4x4 or h100:8");
  plans::PlanOptions options{.target = planning::parse_target(target), .job = job_options()};
  const std::string mode = take(words, "mode");
  check(mode.empty() || mode == "train" || mode == "generate",
        "[plan] mode is `{}` but must be train or generate", mode);
  options.mode = mode == "generate" ? plans::PlanMode::GENERATE : plans::PlanMode::TRAIN;
  options.save_executable = take(words, "save_executable");
  io::check_replaceable(options.save_executable, runtime::kExecutableMagic,
                        "a program that kinema plan saved");
  io::make_folder(options.save_executable.parent_path());
  if (const std::string limit = take(words, "compile_memory_gib"); !limit.empty()) {
    char* end = nullptr;
    const double gib = std::strtod(limit.c_str(), &end);
    check(*end == '\0' && gib > 0,
          "[plan] compile_memory_gib is `{}` but must be a positive number", limit);
    constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
    options.compile_memory = static_cast<int64_t>(gib * kGiB);
  }
  return options;
}

int make_sweep(const config::Loaded& loaded, const plans::PlanOptions& options,
               const Words& given) {
  Observer observer;
  show_on_console(observer, /*with_lines=*/false);
  const std::vector<planning::Outcome> outcomes =
      plans::sweep(loaded, options, given.choices, observer,
                   [](const planning::Outcome& outcome, int64_t done, int64_t total) {
                     warn(fmt::format("{}/{} {}", done, total, planning::outcome_line(outcome)));
                   });
  if (given.json) {
    std::vector<io::Json> list;
    for (const planning::Outcome& outcome : outcomes) {
      list.push_back(planning::to_json(outcome));
    }
    fmt::print("{}\n", io::Json::array(std::move(list)).dump());
    return 0;
  }
  fmt::print("{}\n", planning::outcome_heading());
  for (const planning::Outcome& outcome : outcomes) {
    fmt::print("{}\n", planning::outcome_line(outcome));
  }
  return 0;
}

/// The step of an agent, whose file has settings of its own.
int plan_agent(const Words& given, const plans::PlanOptions& words) {
  check(!given.sweep && !given.tiles && words.mode == plans::PlanMode::TRAIN,
        "[plan] --sweep, --tiles and mode= are not for agents");
  const agents::Settings settings =
      agents::Settings::read(given.words[0], std::span(given.words).subspan(1));
  Observer observer;
  show_on_console(observer, /*with_lines=*/false);
  const agents::Plan plan = agents::plan(settings,
                                         {.target = words.target,
                                          .save_executable = words.save_executable,
                                          .compile_memory = words.compile_memory,
                                          .flags = words.flags,
                                          .job = words.job},
                                         observer);
  fmt::print("{}", given.json ? plan.json().dump() + "\n" : plan.text());
  std::fflush(stdout);
  if (!plan.report.fits()) {
    warn(planning::verdict(plan.report));
  }
  return plan.report.fits() ? 0 : 1;
}

int make_plan(Words given) {
  const std::stop_source stop;
  const Stopping stopping("", stop);  // destructors remove the compile's input
  plans::PlanOptions options = read_words(given.words);
  options.job.stop = stop.get_token();
  options.flags = given.flags;
  options.tiles = given.tiles;
  options.remedies = !given.no_remedies;
  check(given.sweep || (given.choices.meshes.empty() && given.choices.remat.empty() &&
                        given.choices.batches.empty()),
        "[plan] --mesh, --remat and --batch need --sweep");
  if (!given.words.empty() && fs::is_regular_file(given.words[0]) &&
      agents::is_settings_file(given.words[0])) {
    return plan_agent(given, options);
  }
  const config::Loaded loaded = load_arguments(given.words, /*need_file=*/true);
  if (given.sweep) {
    return make_sweep(loaded, options, given);
  }
  Observer observer;
  show_on_console(observer, /*with_lines=*/false);
  const planning::Report report = plans::plan(loaded, options, observer);
  fmt::print("{}",
             given.json ? planning::to_json(report).dump() + "\n" : planning::to_text(report));
  std::fflush(stdout);
  if (!report.fits()) {
    warn(planning::verdict(report));
  }
  return report.fits() ? 0 : 1;
}

}  // namespace

void add_plan(Program& program) {
  Command command = program.add(
      "plan", "Compile for devices that you do not have: memory, FLOPs, roofline, flags");
  const auto given = std::make_shared<Words>();
  command.option("CONFIG key=value", given->words,
                 "configuration, target=v6e:4x4, mode=train|generate, save_executable=PATH, "
                 "compile_memory_gib=16, and keys");
  command.option("--flag", given->flags, "NAME=VALUE for the compiler; may be repeated");
  command.flag("--json", given->json, "print JSON");
  command.flag("--tiles", given->tiles,
               "TPU: autotune tiles of the attention kernels by their schedules first; "
               "tile_search_mode=full tries every combination");
  command.flag(
      "--no-remedies", given->no_remedies,
      "if the step does not fit, list changes that need less memory without compiling them");
  command.flag("--sweep", given->sweep,
               "try meshes, remat policies and batch sizes, and rank those that fit");
  command.option("--mesh", given->choices.meshes,
                 "sweep: a mesh to try, context:2,tensor:4; may be repeated");
  command.option("--remat", given->choices.remat, "sweep: a policy to try; may be repeated");
  command.option("--batch", given->choices.batches, "sweep: a batch size to try; may be repeated");
  command.run([given] { return make_plan(*given); });

  Command job = program.add("compile-job", "The compiling process of `plan`");
  job.hide();
  const auto folder = std::make_shared<std::string>();
  job.option("FOLDER", *folder).required();
  job.run([folder] { return planning::run_compile_job(*folder); });
}

}  // namespace kinema::cli
