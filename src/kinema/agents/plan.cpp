#include "kinema/agents/plan.h"

#include <fmt/format.h>

#include <utility>

#include "kinema/agents/device.h"
#include "kinema/agents/run_parts.h"
#include "kinema/agents/spaces.h"
#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/core/stopwatch.h"
#include "kinema/io/yaml.h"
#include "kinema/planning/compiler_error.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/emit_for.h"
#include "kinema/runtime/environment.h"

namespace kinema::agents {
namespace {

using environments::Space;
using environments::Spaces;

struct TaskSpaces {
  Spaces observations;
  Spaces actions;
};

TaskSpaces pixels_and_buttons(const std::vector<int64_t>& size, int64_t channels, double actions) {
  check(size.size() == 2, "[settings] a size has {} numbers, expected rows and columns",
        size.size());
  constexpr double kLevels = 256;
  return {.observations = {{"image", Space{DType::U8, {size[0], size[1], channels}, 0, kLevels}}},
          .actions = {{"action", Space{DType::S32, {}, 0, actions}}}};
}

/// The spaces of a task, without its package where they are known: games of Atari have 18 actions
/// at most.
TaskSpaces spaces_of(const Settings& settings) {
  constexpr double kAtariActions = 18;
  constexpr double kCrafterActions = 17;
  constexpr double kProcgenActions = 15;
  const std::string& task = settings.text("task");
  const std::string suite = task.substr(0, task.find_first_of("_:"));
  const auto size = [&] { return settings.wholes("env." + suite + ".size"); };
  if (suite == "atari" || suite == "atari100k") {
    return pixels_and_buttons(size(), settings.flag("env." + suite + ".gray") ? 1 : 3,
                              kAtariActions);
  }
  if (suite == "crafter" || suite == "procgen") {
    return pixels_and_buttons(size(), 3, suite == "crafter" ? kCrafterActions : kProcgenActions);
  }
  const auto group = open_environments(settings, 1, 0, 0);
  return {.observations = group->observations(), .actions = group->actions()};
}

mesh::Placement placement(const Settings& settings, const planning::Target& target) {
  std::vector<mesh::Device> devices;
  for (int64_t id = 0; id < target.devices; ++id) {
    devices.push_back({.id = id, .slice = 0, .coordinates = target.grid_place(id)});
  }
  return train_placement(settings, devices);
}

flags::Platform platform_of(const planning::Target& target, const std::string& plugin) {
  flags::Platform out;
  out.backend = target.chip.family == planning::Family::CUDA  ? flags::Backend::GPU
                : target.chip.family == planning::Family::TPU ? flags::Backend::TPU
                                                              : flags::Backend::CPU;
  out.chip = target.chip.name;
  out.version = flags::plugin_version(plugin);
  return out;
}

/// What the report says of the step before it is compiled.
planning::Report described(const PlanOptions& options, const LearnerOptions& learner,
                           const dreamer::AgentConfig& config) {
  planning::Report out;
  int64_t parameters = 0;
  for (const nn::ParamSpec& spec : dreamer::parameters(config)) {
    parameters += spec.shape.elements();
  }
  const mesh::Placement& place = learner.step.model.place;
  out.target = options.target;
  out.what = "training step";
  out.model = fmt::format("{} parameters, deter {}, {} x {} classes, state f32, activations {}",
                          count_text(parameters), config.rssm.deter, config.rssm.stoch,
                          config.rssm.classes, to_string(learner.step.model.activations_dtype));
  out.inputs = fmt::format("{} sequences of {} steps", learner.batch.rows, learner.batch.length);
  for (const auto& [name, space] : config.observations) {
    if (space.is_image()) {
      out.inputs += fmt::format(", {} {}", name, to_string(space.shape));
    }
  }
  if (place.active()) {
    out.mesh = place.mesh().axes.axes;
    out.layout = fmt::format("{} sequences a device", learner.batch.rows / place.devices());
  }
  out.remat = "none";
  return out;
}

constexpr double kSecondsOfDay = 86400;

}  // namespace

bool is_settings_file(const std::filesystem::path& file) {
  const io::Yaml yaml = io::Yaml::read(file);
  const io::Yaml* defaults =
      yaml.kind() == io::Yaml::Kind::Mapping ? yaml.find("defaults") : nullptr;
  return defaults != nullptr && defaults->kind() == io::Yaml::Kind::Mapping;
}

Plan plan(const Settings& settings, const PlanOptions& options, const Observer& observer) {
  const Job job(observer, options.job);
  const planning::Target& target = options.target;
  const std::string plugin = runtime::find_plugin({.hardware = target.platform()});
  const CompilerFlags flags = compiler_flags(settings, platform_of(target, plugin), options.flags);
  job.notice(flags.warnings);
  const TaskSpaces spaces = spaces_of(settings);
  const dreamer::AgentConfig config = agent_config(settings, spaces.observations, spaces.actions);
  const LearnerOptions learner =
      over(placement(settings, target), config, learner_options(settings));
  Plan out{.report = described(options, learner, config)};
  planning::Report& report = out.report;

  const Stopwatch watch;
  const TrainGraph graph = train_graph(config, learner.step, learner.batch);
  runtime::ProgramOptions program;
  graph.set_emit(program.emit);
  program.compile.flags = flags.options;
  split_over(learner.step.model.place, target.platform(), program);
  runtime::Emitted emitted = emit_for({.platform = target.platform(), .chip = target.chip.kind},
                                      *graph.graph, graph.outputs, program);
  planning::CompileJob compile{.target = target,
                               .plugin = plugin,
                               .program = std::move(emitted.text),
                               .options = emitted.kernels.with_flags(program.compile),
                               .kernels = !emitted.kernels.handlers.empty(),
                               .save_executable = options.save_executable.string(),
                               .dump = "",
                               .memory_limit = options.compile_memory,
                               .environment = {}};
  report.options = compile.options;
  report.flops = planning::matrix_flops(*graph.graph, graph.outputs);
  report.text_bytes = std::ssize(compile.program);
  report.build_seconds = watch.seconds();
  try {
    const auto compiling = job.task("compiling for " + target.name);
    report.compiled = planning::compile_in_child(compile, job.program(), job.stop());
    report.saved = options.save_executable.string();
  } catch (const planning::OutOfMemory& error) {
    report.refused = error.what();
    report.compiled.memory.temporary = static_cast<int64_t>(error.wanted());
    report.compiled.memory_limit = static_cast<int64_t>(error.available());
  }
  report.peak_rss = runtime::peak_rss_bytes();
  if (!report.fits()) {
    constexpr size_t kShown = 3;
    report.largest = planning::largest_values(*graph.graph, graph.outputs, kShown);
    report.untried = {"a smaller batch_size or batch_length", "agent.imag_last, e.g. 16",
                      "jax.compute_dtype=bfloat16", "more devices", "a smaller preset"};
  }
  out.environment_steps = settings.number("run.steps");
  out.updates = out.environment_steps * settings.number("run.train_ratio") /
                static_cast<double>(learner.batch.rows * learner.batch.length);
  return out;
}

std::string Plan::text() const {
  std::string out = planning::to_text(report);
  if (seconds() > 0) {
    out += fmt::format(
        "{:<14} {:.3g} steps of the environments, {:.3g} steps of training: {:.2g} "
        "days expected\n",
        "run", environment_steps, updates, seconds() / kSecondsOfDay);
  }
  return out;
}

io::Json Plan::json() const {
  io::Json out = planning::to_json(report);
  out.set("run", io::Json::object({{"environment_steps", environment_steps},
                                   {"updates", updates},
                                   {"expected_seconds", seconds()}}));
  return out;
}

}  // namespace kinema::agents
