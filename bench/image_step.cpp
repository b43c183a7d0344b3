// One denoising step, or one training step, of a network by its config.json: one JSON line.
// bench/peers/torch_image_step.py takes the same arguments, jax_flux_step.py those of training.
#include "kinema/io/json.h"
#include "kinema/networks/controlled.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/environment.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/schedulers/schedule.h"
#include "kinema/training/checkpoint.h"
#include "kinema/training/network_model.h"
#include "kinema/training/trainer.h"
#include "kinema/weights/weights.h"
#include "measure.h"
#include "options.h"

namespace kinema {
namespace {

struct Settings {
  std::string network, controlnet;
  int64_t side = 64, frames = 1, text = 512;  // of the latents; tokens
  bool train = false, scan = false, reference = false;
  std::string remat = "NONE";
  bench::RunSettings run;
};

std::optional<Shape> vector_of(int64_t width) {
  return width > 0 ? std::optional(Shape{DType::F32, {1, width}}) : std::nullopt;
}

/// The network, with its ControlNet.
networks::Network network_of(const Settings& s) {
  networks::Network network = networks::from_config(io::Json::read(s.network));
  if (s.controlnet.empty()) {
    return network;
  }
  return networks::controlled(
      network, {{.network = networks::control_from_config(io::Json::read(s.controlnet))}});
}

/// The inputs that the step takes beside prompt and latents: all but optional ones, and with
/// `reference` a picture as large as the one that is made.
std::vector<sample::StepInput> inputs_of(const Settings& s, const networks::Sizes& sizes) {
  std::vector<sample::StepInput> out;
  for (const networks::NamedInput& each : sizes.named) {
    const bool tokens = each.entry == networks::Entry::TOKENS;
    if (tokens ? s.reference : !each.optional) {
      out.push_back({.input = each, .rows = tokens ? s.side : 0, .columns = tokens ? s.side : 0});
    }
  }
  return out;
}

void denoise(const Settings& s, const networks::Network& network) {
  const bench::Clock::time_point start = bench::Clock::now();
  pjrt::Client client = s.run.open();
  const networks::Sizes& sizes = network.sizes();
  sample::StepSpec spec{.network = network,
                        .latents = {1, sizes.out_channels, s.frames, s.side, s.side},
                        .text_length = s.text,
                        .guidance = sample::Guidance::NONE,
                        .inputs = inputs_of(s, sizes)};
  spec.options.weights_dtype = spec.options.activations_dtype = s.run.precision();
  spec.options.attention.kind = nn::AttentionKind::FLASH;  // as configs/images.yml has it
  const auto params = weights::initialise(network->parameters(spec.options), 0, client);
  bench::weights_are_there(params);
  sample::StepPrograms programs(client, s.run.program("denoise_step"));
  const runtime::Program& program = programs.get(spec);
  const auto schedule =
      schedulers::make_schedule(network->learned().sampled, s.run.runs + s.run.warmup);

  std::vector<pjrt::Buffer> given;
  given.push_back(client.to_device(bench::noise({1, s.text, sizes.text_dim}, 1)));
  for (const int64_t width : {sizes.pooled_dim, sizes.size_ids}) {
    if (width > 0) {
      given.push_back(client.to_device(bench::noise({1, width}, 3)));
    }
  }
  for (const sample::StepInput& each : spec.inputs) {
    given.push_back(client.to_device(bench::noise(each.dims(spec.latents), 4)));
  }
  if (sizes.control_layers > 0) {
    const std::vector<float> scales(static_cast<size_t>(sizes.control_layers), 1);
    given.push_back(client.to_device(HostArray::f32({sizes.control_layers}, scales)));
  }
  pjrt::Buffer x = client.to_device(bench::noise(spec.latents, 2));
  const auto zeros = [&] { return client.to_device(HostArray(Shape{DType::F32, spec.latents})); };
  pjrt::Buffer previous = zeros();
  pjrt::Buffer m1 = zeros();
  pjrt::Buffer m2 = zeros();
  double first = 0;
  int64_t step = 0;
  const auto seconds = bench::time_runs(s.run.warmup, s.run.runs, [&] {
    const pjrt::Buffer numbers =
        client.to_device(sample::step_numbers(schedule, step, {.embedded_guidance = 3.5}));
    std::vector<const pjrt::Buffer*> arguments;
    for (const pjrt::Buffer& param : params) {
      arguments.push_back(&param);
    }
    arguments.insert(arguments.end(), {&x, &previous, &m1, &m2});
    for (const pjrt::Buffer& each : given) {
      arguments.push_back(&each);
    }
    arguments.push_back(&numbers);
    std::vector<pjrt::Buffer> made = program.run(arguments);
    made[0].await();
    m2 = std::move(m1);
    x = std::move(made[0]);
    previous = std::move(made[1]);
    m1 = std::move(made[2]);
    first = step++ == 0 ? bench::seconds_since(start) : first;
  });
  bench::print_result(seconds, programs.compile_seconds(), first, bench::magnitude(x.to_host()),
                      bench::peak_device_bytes(client));
}

void train(const Settings& s, const networks::Network& network) {
  const bench::Clock::time_point start = bench::Clock::now();
  pjrt::Client client = s.run.open();
  const networks::Sizes& sizes = network.sizes();
  nn::ModelOptions model;
  model.weights_dtype = model.activations_dtype = s.run.precision();
  model.scan_layers = s.scan;
  model.remat = remat_policy(s.remat);
  model.attention.kind = nn::AttentionKind::FLASH;  // as configs/images.yml has it
  const std::vector<nn::ParamSpec> specs = network->parameters(model);
  const training::BatchShapes shapes{
      .latents = {DType::F32, {1, sizes.out_channels, 1, s.side, s.side}},
      .text = {DType::F32, {1, s.text, sizes.text_dim}},
      .pooled = vector_of(sizes.pooled_dim),
      .size_ids = vector_of(sizes.size_ids)};
  training::StepOptions step;
  step.adamw.max_norm = 1.0;
  const schedulers::Learned learned = network->learned();
  step.objective.flow = learned.flow;
  if (learned.diffusion) {
    step.objective.diffusion = training::DiffusionObjective{.diffusion = *learned.diffusion};
  }
  if (sizes.takes_guidance) {
    step.objective.guidance = 1.0;
  }
  const std::vector<nn::ParamSpec> kept = training::state_specs(specs, step.state);
  auto state = training::fresh_state(weights::initialise(kept, 0, client), kept, false, client);
  for (const runtime::Array* each : state.all()) {
    bench::weights_are_there(each->shards());
  }
  training::Trainer trainer(client, specs, training::network_model(network, model), shapes, step,
                            std::move(state), {.program = s.run.program("train_step")});
  data::Batch batch{.latents = bench::noise(shapes.latents.dims, 1),
                    .encoder_hidden_states = bench::noise(shapes.text.dims, 2)};
  if (shapes.pooled) {
    batch.pooled = bench::noise(shapes.pooled->dims, 3);
  }
  if (shapes.size_ids) {
    batch.size_ids = bench::noise(shapes.size_ids->dims, 4);
  }
  double first = 0;
  double loss = 0;
  int64_t i = 0;
  const auto times = bench::time_runs(s.run.warmup, s.run.runs, [&] {
    loss = trainer.run(i++, 1e-5, batch).loss;
    first = first > 0 ? first : bench::seconds_since(start);
  });
  bench::print_result(times, trainer.report().compile_seconds, first, loss,
                      bench::peak_device_bytes(client));
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::Settings s;
  kinema::command::Program program("image_step", "", "one step of a network");
  kinema::command::Command command = program.itself();
  command.option("network", s.network, "its config.json").required();
  command.option("--side", s.side, "rows and columns of the latents");
  command.option("--frames", s.frames, "of the latents; of denoising");
  command.option("--text", s.text, "text tokens");
  command.option("--controlnet", s.controlnet, "config.json of a ControlNet to attach");
  command.flag("--reference", s.reference, "with the tokens of another picture of the same size");
  command.flag("--train", s.train, "a training step with AdamW");
  command.option("--remat", s.remat, "of training");
  command.flag("--scan", s.scan, "training in a loop over the blocks");
  s.run.add_to(command, "--steps");
  command.run(kinema::bench::action([&s] {
    const auto network = kinema::network_of(s);
    (s.train ? kinema::train : kinema::denoise)(s, network);
  }));
  return kinema::bench::parse_and_run(program, argc, argv);
}
