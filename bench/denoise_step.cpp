// One denoising step without guidance, as `kinema generate` runs it: the transformer's forward pass
// and the solver's update, latents on the device. One JSON line; bench/peers/torch_denoise_step.py
// takes the same arguments.
#include <CLI/CLI.hpp>
#include <iostream>

#include "measure.h"
#include "runtime/client.h"
#include "sample/denoise_step.h"
#include "schedulers/schedule.h"
#include "weights/weights.h"

namespace kinema {
namespace {

struct Settings {
  int64_t layers = 2, heads = 12, head_dim = 128, ffn = 8960;
  int64_t frames = 4, height = 32, width = 32, text = 512, text_dim = 4096, channels = 16;
  int64_t steps = 5, warmup = 1;
  std::string dtype = "float32", cache, dump;
};

void run(const Settings& s) {
  const bench::Clock::time_point start = bench::Clock::now();
  pjrt::Client client = runtime::open_client({});
  sample::StepSpec spec{.latents = {1, s.channels, s.frames, s.height, s.width},
                        .text_length = s.text,
                        .guidance = sample::Guidance::NONE};
  spec.model.num_layers = s.layers;
  spec.model.num_attention_heads = s.heads;
  spec.model.attention_head_dim = s.head_dim;
  spec.model.ffn_dim = s.ffn;
  spec.model.text_dim = s.text_dim;
  spec.model.in_channels = spec.model.out_channels = s.channels;
  spec.options.weights_dtype = spec.options.activations_dtype = *dtype_from_string(s.dtype);
  const auto params = weights::initialise(wan::parameters(spec.model, spec.options), 0, client);
  sample::StepPrograms programs(client, {.executable_cache = s.cache, .dump = s.dump});
  const runtime::Program& program = programs.get(spec);

  const auto schedule = schedulers::make_schedule({}, s.steps + s.warmup);
  const pjrt::Buffer text = client.to_device(bench::noise({1, s.text, s.text_dim}, 1));
  pjrt::Buffer x = client.to_device(bench::noise(spec.latents, 2));
  const auto zeros = [&] { return client.to_device(HostArray(Shape{DType::F32, spec.latents})); };
  pjrt::Buffer previous = zeros();
  pjrt::Buffer m1 = zeros();
  pjrt::Buffer m2 = zeros();
  double first = 0;
  int64_t step = 0;
  const auto seconds = bench::time_runs(s.warmup, s.steps, [&] {
    std::vector<float> values = schedule.steps[step].values();
    values.push_back(schedule.timesteps[step]);
    values.push_back(1.0F);
    const pjrt::Buffer numbers =
        client.to_device(HostArray::f32({static_cast<int64_t>(values.size())}, values));
    std::vector<const pjrt::Buffer*> arguments;
    for (const pjrt::Buffer& param : params) {
      arguments.push_back(&param);
    }
    arguments.insert(arguments.end(), {&x, &previous, &m1, &m2, &text, &numbers});
    std::vector<pjrt::Buffer> made = program.run(arguments);
    made[0].await();
    m2 = std::move(m1);
    x = std::move(made[0]);
    previous = std::move(made[1]);
    m1 = std::move(made[2]);
    first = step++ == 0 ? bench::seconds_since(start) : first;
  });
  bench::print_result(seconds, programs.compile_seconds(), first, bench::magnitude(x.to_host()));
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::Settings s;
  CLI::App app("one denoising step of a Wan transformer");
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
  CLI11_PARSE(app, argc, argv);
  try {
    kinema::run(s);
  } catch (const std::exception& error) {
    std::cerr << "denoise_step: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
