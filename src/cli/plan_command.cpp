#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "cli/commands.h"
#include "cli/compiler_flags.h"
#include "cli/device.h"
#include "cli/planned_step.h"
#include "core/error.h"
#include "plan/compiler_error.h"
#include "plan/flops.h"
#include "plan/report.h"
#include "runtime/environment.h"

namespace kinema::cli {
namespace {

/// What the command takes beside the configuration.
struct PlanOptions {
  plan::Target target;
  PlanMode mode = PlanMode::TRAIN;
  std::string save_executable;
  double compile_memory_gib = 16;
  std::vector<std::string> flags;
  bool json = false;
  bool sweep = false;
};

/// Takes `key=value` out of the words; empty when it is not among them.
std::string take(std::vector<std::string>& words, const std::string& key) {
  std::string value;
  std::erase_if(words, [&](const std::string& word) {
    const bool found = word.starts_with(key + "=");
    value = found ? word.substr(key.size() + 1) : value;
    return found;
  });
  return value;
}

void read_words(std::vector<std::string>& words, PlanOptions& options) {
  const std::string target = take(words, "target");
  check(!target.empty(), "[plan] for which devices? give target=, e.g. target=v6e:4x4 or h100:8");
  options.target = plan::parse_target(target);
  const std::string mode = take(words, "mode");
  check(mode.empty() || mode == "train" || mode == "generate",
        "[plan] mode is `{}` but must be train or generate", mode);
  options.mode = mode == "generate" ? PlanMode::GENERATE : PlanMode::TRAIN;
  options.save_executable = take(words, "save_executable");
  if (const std::string limit = take(words, "compile_memory_gib"); !limit.empty()) {
    char* end = nullptr;
    options.compile_memory_gib = std::strtod(limit.c_str(), &end);
    check(*end == '\0' && options.compile_memory_gib > 0,
          "[plan] compile_memory_gib is `{}` but must be a positive number", limit);
  }
}

std::string plugin_for(const config::Config& config, const plan::Target& target) {
  runtime::ClientSpec spec;
  spec.plugin = config.run.pjrt_plugin;
  spec.hardware = target.chip.family == plan::Family::CPU   ? "cpu"
                  : target.chip.family == plan::Family::TPU ? "tpu"
                                                            : "cuda";
  return runtime::find_plugin(spec);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The lines of an error that says what takes the memory.
[[noreturn]] void explain(const plan::OutOfMemory& error, const PlannedStep& step) {
  constexpr size_t kShown = 3;
  std::string largest;
  for (const plan::LargeValue& value : plan::largest_values(*step.graph, step.outputs, kShown)) {
    largest += fmt::format("{}{} {} ({})", largest.empty() ? "" : "; ",
                           plan::bytes_text(static_cast<double>(value.shape.bytes())), value.place,
                           to_string(value.shape));
  }
  fail(
      "{}\n  largest values, on all devices together: {}\n"
      "  remat_policy=FULL keeps less, a smaller batch or video takes less, more devices split it",
      error.what(), largest);
}

plan::Report make_report(const config::Loaded& loaded, const PlanOptions& options) {
  std::map<std::string, pjrt::FlagValue> flags =
      check_flags(loaded, {.target = options.target.name, .words = options.flags}).options();
  const auto start = std::chrono::steady_clock::now();
  const PlannedStep step = build_planned_step(loaded, options.target, options.mode);
  plan::CompileJob job{.target = options.target,
                       .plugin = plugin_for(loaded.config, options.target),
                       .program = emit(*step.graph, step.outputs, step.emit),
                       .kernels = static_cast<bool>(step.emit.lowering),
                       .save_executable = options.save_executable};
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  job.memory_limit = static_cast<int64_t>(options.compile_memory_gib * kGiB);
  job.options.flags = std::move(flags);
  plan::Report report;
  report.target = options.target;
  report.what = step.what;
  report.model = step.model;
  report.inputs = step.inputs;
  report.remat = options.mode == PlanMode::TRAIN ? loaded.config.model.remat_policy : "none";
  report.options = job.options;
  report.flops = plan::matrix_flops(*step.graph, step.outputs);
  report.model_flops = step.model_flops;
  report.text_bytes = static_cast<int64_t>(job.program.size());
  report.saved = options.save_executable;
  report.build_seconds = seconds_since(start);
  try {
    report.compiled = plan::compile_in_child(job);
  } catch (const plan::OutOfMemory& error) {
    explain(error, step);
  }
  report.peak_rss = runtime::peak_rss_bytes();
  return report;
}

int make_plan(std::vector<std::string> words, PlanOptions options) {
  read_words(words, options);
  const config::Loaded loaded = load_arguments(words, /*need_file=*/true);
  const plan::Report report = make_report(loaded, options);
  fmt::print("{}", options.json ? plan::to_json(report).dump() + "\n" : plan::to_text(report));
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "plan", "Compile for devices that are not here: memory, work, least time, flags");
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto options = std::make_shared<PlanOptions>();
  command->add_option("CONFIG key=value", *words,
                      "configuration, target=v6e:4x4, mode=train|generate, save_executable=PATH, "
                      "compile_memory_gib=16, and keys");
  command->add_option("--flag", options->flags, "NAME=VALUE for the compiler; may be repeated");
  command->add_flag("--json", options->json, "print JSON");
  command->callback(
      [=, &action] { action = [words, options] { return make_plan(*words, *options); }; });

  CLI::App* job = app.add_subcommand("compile-job", "The compiling process of `plan`");
  job->group("");  // not listed
  const auto folder = std::make_shared<std::string>();
  job->add_option("FOLDER", *folder)->required();
  job->callback([=, &action] { action = [folder] { return plan::run_compile_job(*folder); }; });
}

}  // namespace kinema::cli
