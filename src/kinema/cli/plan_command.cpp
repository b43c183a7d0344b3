#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "kinema/cli/command.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/compiler_flags.h"
#include "kinema/cli/device.h"
#include "kinema/cli/planned_step.h"
#include "kinema/cli/progress.h"
#include "kinema/cli/waiting.h"
#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/graph/scan.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/planning/compiler_error.h"
#include "kinema/planning/flops.h"
#include "kinema/planning/report.h"
#include "kinema/planning/sweep.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/environment.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// What the command takes beside the configuration.
struct PlanOptions {
  planning::Target target;
  PlanMode mode = PlanMode::TRAIN;
  std::string save_executable;
  double compile_memory_gib = 16;
  std::vector<std::string> flags;
  bool json = false;
  bool sweep = false;
  std::vector<std::string> sweep_meshes;
  std::vector<std::string> sweep_remat;
  std::vector<int64_t> sweep_batches;
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
  options.target = planning::parse_target(target);
  const std::string mode = take(words, "mode");
  check(mode.empty() || mode == "train" || mode == "generate",
        "[plan] mode is `{}` but must be train or generate", mode);
  options.mode = mode == "generate" ? PlanMode::GENERATE : PlanMode::TRAIN;
  options.save_executable = take(words, "save_executable");
  check(!fs::is_directory(options.save_executable),
        "[plan] save_executable {} is a folder, a file was expected", options.save_executable);
  io::make_folder(fs::path(options.save_executable).parent_path());
  if (const std::string limit = take(words, "compile_memory_gib"); !limit.empty()) {
    char* end = nullptr;
    options.compile_memory_gib = std::strtod(limit.c_str(), &end);
    check(*end == '\0' && options.compile_memory_gib > 0,
          "[plan] compile_memory_gib is `{}` but must be a positive number", limit);
  }
}

std::string plugin_for(const config::Config& config, const planning::Target& target) {
  runtime::ClientSpec spec;
  spec.plugin = config.run.pjrt_plugin;
  spec.hardware = target.platform();
  return runtime::find_plugin(spec);
}

/// Throws the same error with the lines that say what takes the memory.
[[noreturn]] void explain(const planning::OutOfMemory& error, const PlannedStep& step) {
  constexpr size_t kShown = 3;
  std::string largest;
  for (const planning::LargeValue& value :
       planning::largest_values(*step.graph, step.outputs, kShown)) {
    largest += fmt::format("{}{} {} ({})", largest.empty() ? "" : "; ",
                           planning::bytes_text(static_cast<double>(value.shape.bytes())),
                           value.place, to_string(value.shape));
  }
  throw planning::OutOfMemory(
      fmt::format("{}\n  largest values, on all devices together: {}\n  remat_policy=FULL keeps "
                  "less, a smaller batch or video takes less, more devices split it",
                  error.what(), largest),
      error.wanted(), error.available());
}

planning::Report make_report(const config::Loaded& loaded, const PlanOptions& options) {
  std::map<std::string, pjrt::FlagValue> flags =
      check_flags(loaded, {.target = options.target.name, .words = options.flags}).options();
  const Stopwatch watch;
  const PlannedStep step = build_planned_step(loaded, options.target, options.mode);
  planning::CompileJob job{.target = options.target,
                           .plugin = plugin_for(loaded.config, options.target),
                           .program = emit(*step.graph, step.outputs, step.emit),
                           .kernels = static_cast<bool>(step.kernels.lowering),
                           .save_executable = options.save_executable};
  if (const std::string& folder = loaded.config.run.dump_to; !folder.empty()) {
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    io::write_file(std::filesystem::path(folder) / "plan.mlir", job.program);
    job.dump = (std::filesystem::absolute(folder) / "plan.hlo.txt").string();
  }
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  job.memory_limit = static_cast<int64_t>(options.compile_memory_gib * kGiB);
  job.options.flags = std::move(flags);
  set_effort(loaded.config, options.target.chip.family == planning::Family::TPU, job.options);
  job.options = step.kernels.with_flags(std::move(job.options));
  if (step.place.active()) {
    job.options.partitions = step.place.mesh().devices();
    job.options.device_ids = step.place.mesh().device_ids;
  }
  planning::Report report;
  report.target = options.target;
  report.what = step.what;
  report.model = step.model;
  report.inputs = step.inputs;
  report.layout = step.layout;
  if (step.place.active()) {
    report.mesh = step.place.mesh().axes.axes;
  }
  report.remat = options.mode == PlanMode::TRAIN ? loaded.config.model.remat_policy : "none";
  report.options = job.options;
  report.flops = planning::matrix_flops(*step.graph, step.outputs);
  report.model_flops = step.model_flops;
  report.text_bytes = static_cast<int64_t>(job.program.size());
  report.saved = options.save_executable;
  report.build_seconds = watch.seconds();
  try {
    const Waiting waiting(fmt::format("compiling for {}", options.target.name));
    report.compiled = planning::compile_in_child(job, kThisProgram);
  } catch (const planning::OutOfMemory& error) {
    explain(error, step);
  }
  report.peak_rss = runtime::peak_rss_bytes();
  return report;
}

/// The settings that a sweep tries: what was asked for, else what the configuration says and its
/// neighbours.
planning::SweepSpace sweep_space(const config::Loaded& loaded, const PlanOptions& options) {
  const wan::TransformerConfig model = planned_model(loaded);
  planning::SweepSpace space{.devices = options.target.devices,
                             .remat = options.sweep_remat,
                             .batches = options.sweep_batches,
                             .heads = model.num_attention_heads,
                             .width = model.dim()};
  for (const std::string& mesh : options.sweep_meshes) {
    space.meshes.push_back(planning::parse_mesh(mesh));
  }
  if (space.remat.empty()) {
    space.remat =
        options.mode == PlanMode::TRAIN
            ? std::vector<std::string>{"FULL", "HIDDEN_STATE_WITH_OFFLOAD", "MATMUL_WITHOUT_BATCH"}
            : std::vector<std::string>{"NONE"};
  }
  if (space.batches.empty()) {
    space.batches = {options.mode == PlanMode::TRAIN
                         ? batch_sizes(loaded.config, options.target.devices).train
                         : loaded.config.generate.generate_batch_size};
  }
  return space;
}

/// The configuration with a candidate's settings.
config::Loaded with(std::vector<std::string> words, const planning::Candidate& candidate,
                    PlanMode mode) {
  const auto& [data, fsdp, context, tensor] = candidate.mesh;
  for (std::string word :
       {fmt::format("ici_data_parallelism={}", data), fmt::format("ici_fsdp_parallelism={}", fsdp),
        fmt::format("ici_context_parallelism={}", context),
        fmt::format("ici_tensor_parallelism={}", tensor), "remat_policy=" + candidate.remat,
        fmt::format("{}={}", mode == PlanMode::TRAIN ? "global_batch_size" : "generate_batch_size",
                    candidate.batch)}) {
    words.push_back(std::move(word));
  }
  return load_arguments(words, /*need_file=*/true);
}

int make_sweep(const std::vector<std::string>& words, const PlanOptions& options) {
  const std::vector<planning::Candidate> all =
      planning::candidates(sweep_space(load_arguments(words, /*need_file=*/true), options));
  check(!all.empty(), "[plan] no mesh of {} devices divides batch, heads and width",
        options.target.devices);
  check(options.save_executable.empty(),
        "[plan] --sweep saves no programs: give one of its meshes");
  int64_t tried = 0;
  std::optional<Progress> progress(std::in_place, "trying", static_cast<int64_t>(all.size()));
  progress->update(0);
  std::vector<planning::Outcome> outcomes = planning::sweep(
      all,
      [&](const planning::Candidate& candidate) {
        return make_report(with(words, candidate, options.mode), options);
      },
      [&](const planning::Outcome& outcome) {
        warn(fmt::format("{}/{} {}", ++tried, all.size(), planning::outcome_line(outcome)));
        progress->update(tried);
      });
  progress.reset();
  planning::rank(outcomes);
  if (options.json) {
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

/// What is wrong with a candidate would else be a row of the table.
void check_sweep(const PlanOptions& options) {
  check(options.sweep || (options.sweep_meshes.empty() && options.sweep_remat.empty() &&
                          options.sweep_batches.empty()),
        "[plan] --mesh, --remat and --batch are what --sweep tries, and it is not given");
  for (const int64_t batch : options.sweep_batches) {
    check(batch >= 1, "[plan] --batch is {}, expected 1 or more", batch);
  }
  for (const std::string& policy : options.sweep_remat) {
    remat_policy(policy);
  }
}

int make_plan(std::vector<std::string> words, PlanOptions options) {
  read_words(words, options);
  check_sweep(options);
  if (options.sweep) {
    return make_sweep(words, options);
  }
  const config::Loaded loaded = load_arguments(words, /*need_file=*/true);
  const planning::Report report = make_report(loaded, options);
  fmt::print("{}",
             options.json ? planning::to_json(report).dump() + "\n" : planning::to_text(report));
  return 0;
}

}  // namespace

void add_plan(Program& program) {
  Command command =
      program.add("plan", "Compile for devices that are not here: memory, work, least time, flags");
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto options = std::make_shared<PlanOptions>();
  command.option("CONFIG key=value", *words,
                 "configuration, target=v6e:4x4, mode=train|generate, save_executable=PATH, "
                 "compile_memory_gib=16, and keys");
  command.option("--flag", options->flags, "NAME=VALUE for the compiler; may be repeated");
  command.flag("--json", options->json, "print JSON");
  command.flag("--sweep", options->sweep,
               "try meshes, remat policies and batch sizes, and rank those that fit");
  command.option("--mesh", options->sweep_meshes,
                 "sweep: a mesh to try, context:2,tensor:4; may be repeated");
  command.option("--remat", options->sweep_remat, "sweep: a policy to try; may be repeated");
  command.option("--batch", options->sweep_batches,
                 "sweep: samples of a step to try; may be repeated");
  command.run([words, options] { return make_plan(*words, *options); });

  Command job = program.add("compile-job", "The compiling process of `plan`");
  job.hide();
  const auto folder = std::make_shared<std::string>();
  job.option("FOLDER", *folder).required();
  job.run([folder] { return planning::run_compile_job(*folder); });
}

}  // namespace kinema::cli
