// One training step, or one step of acting, of an agent on random data: one JSON line.
// bench/peers/jax_dreamer.py measures the original.
#include <map>

#include "kinema/agents/actor.h"
#include "kinema/agents/learner.h"
#include "kinema/agents/run_parts.h"
#include "kinema/agents/settings.h"
#include "kinema/agents/spaces.h"
#include "kinema/core/error.h"
#include "measure.h"
#include "options.h"

namespace kinema {
namespace {

struct Given {
  std::string settings, observation = "image64";
  std::vector<std::string> words;
  int64_t act = 0;  // environments; 0: a training step
  bench::RunSettings run;
};

environments::Spaces observations_of(const std::string& name) {
  if (name == "image64") {
    return {{"image", {.dtype = DType::U8, .shape = {64, 64, 3}}}};
  }
  if (name == "catch") {
    return {{"image", {.dtype = DType::U8, .shape = {10, 10, 1}}}};
  }
  check(name == "vector", "[bench] the observation is {}, expected image64, catch or vector", name);
  return {{"state", {.shape = {24}}}};
}

environments::Spaces actions_of(const std::string& name) {
  if (name == "vector") {
    return {{"action", {.shape = {6}, .low = -1.0, .high = 1.0}}};
  }
  const double classes = name == "catch" ? 3.0 : 17.0;
  return {{"action", {.dtype = DType::S32, .low = 0.0, .high = classes}}};
}

/// Bytes and classes are drawn from what every space has; flags are zero.
HostArray random_values(const std::string& name, const Shape& shape, RandomStream& random) {
  HostArray out(shape);
  if (name.starts_with("is_") || name == "consec") {
    return out;
  }
  constexpr uint64_t kClasses = 3;
  switch (shape.dtype) {
    case DType::U8:
      for (uint8_t& value : out.as<uint8_t>()) {
        value = static_cast<uint8_t>(random.below(name == "image" ? 256 : kClasses));
      }
      return out;
    case DType::S32:
      for (int32_t& value : out.as<int32_t>()) {
        value = static_cast<int32_t>(random.below(kClasses));
      }
      return out;
    default: {
      HostArray wide(Shape{DType::F32, shape.dims});
      for (float& value : wide.as<float>()) {
        value = random.uniform() - 0.5F;
      }
      return convert(wide, shape.dtype);
    }
  }
}

void train(const Given& given, const agents::Settings& settings,
           const dreamer::AgentConfig& config) {
  const bench::Clock::time_point start = bench::Clock::now();
  const agents::Device device = agents::open_device(settings);
  runtime::ProgramOptions program = device.program;
  program.executable_cache = given.run.cache;
  program.dump = given.run.dump;
  agents::LearnerOptions options = agents::learner_options(settings, device.model);
  agents::Learner learner(device.client, config, options, program);
  runtime::reset_peak_rss();
  RandomStream random(random_key(0, "bench"));
  const auto shapes = agents::train_graph(config, options.step, options.batch).data;
  replay::Arrays batch;
  for (const auto& [name, shape] : shapes) {
    batch[name] = random_values(name, shape, random);
  }
  constexpr int64_t kIdBytes = 20;
  batch["stepid"] = HostArray(Shape{
      DType::U8, {options.batch.rows, options.batch.context + options.batch.length, kIdBytes}});
  double first = 0;
  double loss = 0;
  const auto times = bench::time_runs(given.run.warmup, given.run.runs, [&] {
    learner.begin(batch);
    for (const auto& [name, value] : learner.end().metrics) {
      loss = name == "opt/loss" ? value : loss;
    }
    first = first > 0 ? first : bench::seconds_since(start);
  });
  bench::print_result(times, learner.report().compile_seconds, first, loss,
                      fmt::format(", \"temporary_bytes\": {}", learner.report().memory.temporary));
}

void act(const Given& given, const agents::Settings& settings, const dreamer::AgentConfig& config) {
  const bench::Clock::time_point start = bench::Clock::now();
  const agents::Device device = agents::open_device(settings);
  runtime::ProgramOptions program = device.program;
  program.executable_cache = given.run.cache;
  program.dump = given.run.dump;
  agents::Actor actor(device.client, config, device.model, given.act, 0, program);
  const std::vector<nn::ParamSpec> specs = dreamer::parameters(config);
  const auto state = agents::initial_state(config, 0);
  std::vector<pjrt::Buffer> parameters;
  for (const size_t i : agents::acting_parameters(specs)) {
    parameters.push_back(device.client.to_device(state.params[i]));
  }
  actor.set(std::make_shared<const std::vector<pjrt::Buffer>>(std::move(parameters)));
  RandomStream random(random_key(0, "bench"));
  environments::Arrays observations;
  for (const auto& [name, space] : config.observations) {
    Shape shape{space.dtype, space.shape};
    shape.dims.insert(shape.dims.begin(), given.act);
    observations[name] = random_values(name, shape, random);
  }
  const std::vector<uint8_t> is_first(static_cast<size_t>(given.act), 0);
  double first = 0;
  double sum = 0;
  int64_t call = 0;
  const auto times = bench::time_runs(given.run.warmup, given.run.runs, [&] {
    const auto acted = actor.act(observations, is_first, call++);
    sum += bench::magnitude(convert(acted.latents.at("dyn/deter"), DType::F32));
    first = first > 0 ? first : bench::seconds_since(start);
  });
  bench::print_result(times, actor.report().compile_seconds, first, sum);
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::Given given;
  kinema::command::Program program("agent_step", "", "one step of an agent");
  kinema::command::Command command = program.itself();
  command.option("settings", given.settings, "configs/dreamer.yml").required();
  command.option("--observation", given.observation).one_of({"image64", "vector", "catch"});
  command.option("--set", given.words, "KEY=VALUE of the settings");
  command.option("--act", given.act, "a step of acting in so many environments");
  given.run.add_to(command, "--steps");
  command.run(kinema::bench::action([&given] {
    std::vector<std::string> words = given.words;
    words.push_back("jax.compute_dtype=" + given.run.dtype);
    const auto settings = kinema::agents::Settings::read(given.settings, words);
    const auto config =
        kinema::agents::agent_config(settings, kinema::observations_of(given.observation),
                                     kinema::actions_of(given.observation));
    (given.act > 0 ? kinema::act : kinema::train)(given, settings, config);
  }));
  return kinema::bench::parse_and_run(program, argc, argv);
}
