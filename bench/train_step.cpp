// One training step of a Wan transformer: seconds, compile seconds, memory, as one JSON line.
// The peers in bench/peers take the same arguments; bench/compare.py runs both.
#include "kinema/runtime/client.h"
#include "kinema/runtime/environment.h"
#include "kinema/training/checkpoint.h"
#include "kinema/training/network_model.h"
#include "kinema/training/trainer.h"
#include "kinema/weights/adapter.h"
#include "kinema/weights/weights.h"
#include "measure.h"
#include "options.h"

namespace kinema {
namespace {

struct Settings {
  bench::TransformerSettings model{.layers = 2,
                                   .heads = 2,
                                   .head_dim = 128,
                                   .ffn = 1024,
                                   .frames = 5,
                                   .height = 16,
                                   .width = 16};
  bench::RunSettings run;
  std::string remat = "NONE";
  int64_t lora_rank = 0;  // of adapters on attention, which alone are trained then; 0: all weights
  bool scan = false, kernels = true;
};

/// The parameters of the network in its options, as they are trained.
std::vector<nn::ParamSpec> parameters(const Settings& s, const networks::Network& network,
                                      nn::ModelOptions& model) {
  if (s.lora_rank == 0) {
    return network->parameters(model);
  }
  weights::AdapterConfig adapter{.rank = s.lora_rank, .alpha = static_cast<double>(s.lora_rank)};
  const std::vector<std::string> targets{"attention"};
  adapter.modules = weights::adapter_modules(network->parameters(model), targets, adapter.rank);
  model.low_ranks = adapter.modules;
  std::vector<nn::ParamSpec> specs = network->parameters(model);
  weights::freeze_base(specs, adapter);
  return specs;
}

void run(const Settings& s) {
  const bench::Clock::time_point start = bench::Clock::now();
  pjrt::Client client = s.run.open();
  const networks::Network network = s.model.network();
  nn::ModelOptions model;
  model.weights_dtype = model.activations_dtype = s.run.precision();
  model.scan_layers = s.scan;
  model.remat = remat_policy(s.remat);
  model.attention.kind = nn::AttentionKind::FLASH;  // as configs/wan.yml has it
  const std::vector<nn::ParamSpec> specs = parameters(s, network, model);
  const bench::TransformerSettings& m = s.model;
  training::BatchShapes shapes{{DType::F32, {1, m.channels, m.frames, m.height, m.width}},
                               {DType::F32, {1, m.text, m.text_dim}}};
  training::StepOptions step;
  step.adamw.max_norm = 1.0;
  training::TrainerOptions options;
  options.program = s.run.program("train_step");
  options.program.kernels = s.kernels;
  const std::vector<nn::ParamSpec> kept = training::state_specs(specs, step.state);
  auto state = training::fresh_state(weights::initialise(kept, 0, client), kept, false, client);
  const double initialised = bench::seconds_since(start);
  const int64_t initialised_rss = runtime::peak_rss_bytes();
  for (const runtime::Array* each : state.all()) {
    bench::weights_are_there(each->shards());
  }
  training::Trainer trainer(client, specs, training::network_model(network, model), shapes, step,
                            std::move(state), options);
  const int64_t compiled_rss = runtime::peak_rss_bytes();
  data::Batch batch{.latents = bench::noise(shapes.latents.dims, 1),
                    .encoder_hidden_states = bench::noise(shapes.text.dims, 2)};
  double first = 0;
  double loss = 0;
  int64_t i = 0;
  const auto times = bench::time_runs(s.run.warmup, s.run.runs, [&] {
    loss = trainer.run(i++, 1e-5, batch).loss;
    first = first > 0 ? first : bench::seconds_since(start);
  });
  fmt::print(
      "{{\"name\": \"kinema\", \"compile_seconds\": {:.3f}, \"initialise_seconds\": {:.3f}, "
      "{}, \"loss\": {:.6f}, \"first_step_seconds\": {:.3f}, \"temp_bytes\": "
      "{}, "
      "\"aliased_bytes\": {}, \"initialised_rss_bytes\": {}, \"compiled_rss_bytes\": {}, "
      "\"peak_rss_bytes\": {}{}}}\n",
      trainer.report().compile_seconds, initialised, times.json(), loss, first,
      trainer.report().memory.temporary, trainer.report().memory.aliased, initialised_rss,
      compiled_rss, runtime::peak_rss_bytes(), bench::peak_device_bytes(client));
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::Settings s;
  kinema::command::Program program("train_step", "", "one training step of a Wan transformer");
  kinema::command::Command command = program.itself();
  s.model.add_to(command);
  s.run.add_to(command, "--steps");
  command.option("--remat", s.remat);
  command.option("--lora-rank", s.lora_rank, "train adapters on attention alone; 0: all weights");
  command.flag("--scan,!--no-scan", s.scan, "");
  command.flag("--kernels,!--no-kernels", s.kernels, "");
  command.run(kinema::bench::action([&s] { kinema::run(s); }));
  return kinema::bench::parse_and_run(program, argc, argv);
}
