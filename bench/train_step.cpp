// One training step of a Wan transformer: seconds, compile seconds, memory, as one JSON line.
// The peers in bench/peers take the same arguments; bench/compare.py runs both.
#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>

#include "core/threefry.h"
#include "runtime/client.h"
#include "runtime/environment.h"
#include "train/checkpoint.h"
#include "train/trainer.h"
#include "train/wan_model.h"
#include "weights/weights.h"

namespace kinema {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Settings {
  int64_t layers = 2, heads = 2, head_dim = 128, ffn = 1024;
  int64_t frames = 5, height = 16, width = 16, text = 512, text_dim = 4096, channels = 16;
  int64_t steps = 5, warmup = 1;
  std::string dtype = "float32", cache, dump, remat = "NONE";
  bool scan = false, kernels = true;
};

HostArray noise(Dims dims, uint64_t seed) {
  HostArray array(Shape{DType::F32, std::move(dims)});
  RandomStream stream(random_key(seed, "bench"));
  for (float& value : array.as<float>()) {
    value = stream.normal();
  }
  return array;
}

void run(const Settings& s) {
  const Clock::time_point start = Clock::now();
  pjrt::Client client = runtime::open_client({});
  wan::TransformerConfig config;
  config.num_layers = s.layers;
  config.num_attention_heads = s.heads;
  config.attention_head_dim = s.head_dim;
  config.ffn_dim = s.ffn;
  config.text_dim = s.text_dim;
  config.in_channels = config.out_channels = s.channels;
  wan::ModelOptions model;
  model.weights_dtype = model.activations_dtype = *dtype_from_string(s.dtype);
  model.scan_layers = s.scan;
  model.remat = remat_policy(s.remat);
  const auto specs = wan::parameters(config, model);
  train::BatchShapes shapes{{DType::F32, {1, s.channels, s.frames, s.height, s.width}},
                            {DType::F32, {1, s.text, s.text_dim}}};
  train::StepOptions step;
  step.adamw.max_norm = 1.0;
  step.max_abs_gradient = false;
  train::TrainerOptions options;
  options.program = {
      .name = "train_step", .kernels = s.kernels, .executable_cache = s.cache, .dump = s.dump};
  auto state = train::fresh_state(weights::initialise(train::master_specs(specs), 0, client), specs,
                                  false, client);
  const double initialised = seconds_since(start);
  const int64_t initialised_rss = runtime::peak_rss_bytes();
  train::Trainer trainer(client, specs, train::wan_model(config, model), shapes, step,
                         std::move(state), options);
  const int64_t compiled_rss = runtime::peak_rss_bytes();
  data::Batch batch{.latents = noise(shapes.latents.dims, 1),
                    .encoder_hidden_states = noise(shapes.text.dims, 2)};
  std::string seconds;
  double first = 0;
  double loss = 0;
  for (int64_t i = 0; i < s.warmup + s.steps; ++i) {
    const Clock::time_point begin = Clock::now();
    loss = trainer.run(i, 1e-5, batch).loss;
    first = first > 0 ? first : seconds_since(start);
    if (i >= s.warmup) {
      seconds += fmt::format("{}{:.5f}", seconds.empty() ? "" : ", ", seconds_since(begin));
    }
  }
  fmt::print(
      "{{\"name\": \"kinema\", \"compile_seconds\": {:.3f}, \"initialise_seconds\": {:.3f}, "
      "\"seconds\": [{}], \"loss\": {:.6f}, \"first_step_seconds\": {:.3f}, \"temp_bytes\": {}, "
      "\"aliased_bytes\": {}, \"initialised_rss_bytes\": {}, \"compiled_rss_bytes\": {}, "
      "\"peak_rss_bytes\": {}}}\n",
      trainer.report().compile_seconds, initialised, seconds, loss, first,
      trainer.report().memory.temporary, trainer.report().memory.aliased, initialised_rss,
      compiled_rss, runtime::peak_rss_bytes());
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::Settings s;
  CLI::App app("one training step of a Wan transformer");
  app.add_option("--layers", s.layers);
  app.add_option("--heads", s.heads);
  app.add_option("--head-dim", s.head_dim);
  app.add_option("--ffn", s.ffn);
  app.add_option("--frames", s.frames, "latent frames");
  app.add_option("--height", s.height, "latent rows");
  app.add_option("--width", s.width, "latent columns");
  app.add_option("--text", s.text, "text tokens");
  app.add_option("--text-dim", s.text_dim);
  app.add_option("--channels", s.channels);
  app.add_option("--steps", s.steps);
  app.add_option("--warmup", s.warmup);
  app.add_option("--dtype", s.dtype)->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option("--cache", s.cache, "executable cache folder");
  app.add_option("--dump", s.dump, "folder for the program's text");
  app.add_option("--remat", s.remat);
  app.add_flag("--scan,!--no-scan", s.scan);
  app.add_flag("--kernels,!--no-kernels", s.kernels);
  CLI11_PARSE(app, argc, argv);
  try {
    kinema::run(s);
  } catch (const std::exception& error) {
    std::cerr << "train_step: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
