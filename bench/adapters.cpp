// Adapters of several kinds against LoRA, in turns: merging them into the sizes of SDXL's UNet, and
// training steps of a Wan transformer with them. A line of JSON for each, with the ratio to LoRA.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>

#include "kinema/io/temporary_folder.h"
#include "kinema/nn/init.h"
#include "kinema/runtime/client.h"
#include "kinema/training/checkpoint.h"
#include "kinema/training/network_model.h"
#include "kinema/training/trainer.h"
#include "kinema/weights/adapter.h"
#include "kinema/weights/weights.h"
#include "measure.h"
#include "options.h"

namespace kinema {
namespace {

using nn::AdapterKind;

constexpr std::array kMerged{AdapterKind::LORA, AdapterKind::LOKR};
constexpr std::array kTrained{AdapterKind::LORA, AdapterKind::DORA};

struct Settings {
  bench::TransformerSettings model{.layers = 2,
                                   .heads = 8,
                                   .head_dim = 128,
                                   .ffn = 4096,
                                   .frames = 1,
                                   .height = 64,
                                   .width = 64};
  bench::RunSettings run;
  int64_t rank = 16;
  int64_t every = 1;
  std::string only;
};

weights::AdapterConfig adapter_config(AdapterKind kind, int64_t rank, const char* part,
                                      std::span<const nn::ParamSpec> plain) {
  weights::AdapterConfig out{.rank = rank, .alpha = static_cast<double>(rank), .part = part};
  const std::vector<std::string> targets{"attention+ffn"};
  out.modules = weights::adapter_modules(plain, targets, rank);
  out.modules.kind = kind;
  return out;
}

/// Random values for every factor, of the size of an initial one.
HostArray factor(const nn::ParamSpec& spec) {
  HostArray out(Shape{DType::F32, spec.shape.dims});
  nn::initial_values(nn::Init::uniform(0.01), spec.shape.dims, spec.name, 1, out.as<float>());
  return out;
}

void print_ratios(const char* what, std::span<const AdapterKind> kinds,
                  const std::map<AdapterKind, std::vector<double>>& seconds) {
  const auto fastest = [&](AdapterKind kind) {
    return *std::ranges::min_element(seconds.at(kind));
  };
  for (const AdapterKind kind : kinds) {
    fmt::print(
        "{{\"what\": \"{}\", \"adapter\": \"{}\", \"seconds\": [{:.4f}], \"ratio\": {:.3f}}}\n",
        what, weights::kind_name(kind), fmt::join(seconds.at(kind), ", "),
        fastest(kind) / fastest(AdapterKind::LORA));
  }
}

/// What loading a model adds for its adapters: the differences of all weights, without reading
/// these.
void merge(const Settings& s) {
  const networks::Network network =
      networks::from_config(*networks::released_config("stable-diffusion-xl-base-1.0"));
  const nn::ModelOptions options{.scan_layers = false};
  const std::vector<nn::ParamSpec> plain = network->parameters(options);
  const io::TemporaryFolder scratch("adapters");
  std::map<AdapterKind, weights::Adapters> adapters;
  for (const AdapterKind kind : kMerged) {
    const auto config = adapter_config(kind, s.rank, "unet", plain);
    nn::ModelOptions with = options;
    with.low_ranks = config.modules;
    std::vector<nn::ParamSpec> specs = network->parameters(with);
    weights::freeze_base(specs, config);
    const std::vector<nn::ParamSpec> trained = training::trained_specs(specs);
    const std::filesystem::path folder = scratch.path() / weights::kind_name(kind);
    weights::save_adapter(folder, config, trained, [&](size_t i) { return factor(trained[i]); });
    const std::vector<weights::Adapter> file{
        {.lora = std::make_shared<const weights::Lora>(weights::Lora::open(folder))}};
    adapters.emplace(kind, weights::Adapters(file, plain));
  }
  std::map<AdapterKind, std::vector<double>> seconds;
  for (int64_t run = -s.run.warmup; run < s.run.runs; ++run) {
    for (const AdapterKind kind : kMerged) {
      double sum = 0;
      int64_t number = 0;
      for (const nn::ParamSpec& spec : plain) {
        if (!adapters.at(kind).change(spec.name) || number++ % s.every != 0) {
          continue;
        }
        HostArray values(Shape{DType::F32, spec.shape.dims});
        std::ranges::fill(values.as<float>(), 0.01F);
        const bench::Clock::time_point start = bench::Clock::now();
        adapters.at(kind).add_to(spec.name, values.as<float>());
        sum += bench::seconds_since(start);
      }
      if (run >= 0) {
        seconds[kind].push_back(sum);
      }
    }
  }
  print_ratios("merge into SDXL", kMerged, seconds);
}

std::unique_ptr<training::Trainer> trainer_of(const Settings& s, AdapterKind kind,
                                              pjrt::Client& client,
                                              const training::BatchShapes& shapes) {
  const networks::Network network = s.model.network();
  nn::ModelOptions model;
  model.weights_dtype = model.activations_dtype = s.run.precision();
  model.attention.kind = nn::AttentionKind::FLASH;
  const auto config = adapter_config(kind, s.rank, "transformer", network->parameters(model));
  model.low_ranks = config.modules;
  std::vector<nn::ParamSpec> specs = network->parameters(model);
  weights::freeze_base(specs, config);
  const training::StepOptions step;
  const std::vector<nn::ParamSpec> kept = training::state_specs(specs, step.state);
  training::TrainerOptions options;
  options.program = s.run.program("train_step");
  return std::make_unique<training::Trainer>(
      client, specs, training::network_model(network, model), shapes, step,
      training::fresh_state(weights::initialise(kept, 0, client), kept, false, client), options);
}

void step(const Settings& s) {
  pjrt::Client client = s.run.open();
  const bench::TransformerSettings& m = s.model;
  const training::BatchShapes shapes{{DType::F32, {1, m.channels, m.frames, m.height, m.width}},
                                     {DType::F32, {1, m.text, m.text_dim}}};
  const data::Batch batch{.latents = bench::noise(shapes.latents.dims, 1),
                          .encoder_hidden_states = bench::noise(shapes.text.dims, 2)};
  std::map<AdapterKind, std::unique_ptr<training::Trainer>> trainers;
  for (const AdapterKind kind : kTrained) {
    trainers.emplace(kind, trainer_of(s, kind, client, shapes));
  }
  std::map<AdapterKind, std::vector<double>> seconds;
  for (int64_t run = -s.run.warmup; run < s.run.runs; ++run) {
    for (const AdapterKind kind : kTrained) {
      const bench::Clock::time_point start = bench::Clock::now();
      trainers.at(kind)->run(run + s.run.warmup, 1e-5, batch);
      if (run >= 0) {
        seconds[kind].push_back(bench::seconds_since(start));
      }
    }
  }
  print_ratios("training step", kTrained, seconds);
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::Settings s;
  kinema::command::Program program("adapters", "", "adapters of several kinds against LoRA");
  kinema::command::Command command = program.itself();
  s.model.add_to(command);
  s.run.add_to(command);
  command.option("--rank", s.rank);
  command.option("--every", s.every, "merge into one of so many weights");
  command.option("--only", s.only, "merge or step; empty: both").one_of({"", "merge", "step"});
  command.run(kinema::bench::action([&s] {
    if (s.only != "step") {
      kinema::merge(s);
    }
    if (s.only != "merge") {
      kinema::step(s);
    }
  }));
  return kinema::bench::parse_and_run(program, argc, argv);
}
