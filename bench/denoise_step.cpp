// One denoising step as `kinema generate` runs it: the transformer's forward pass, guidance where
// asked for, and the solver's update, latents on the device. One JSON line;
// bench/peers/torch_denoise_step.py takes the same arguments, but for --guided, --keys and --reuse.
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
  std::string dtype = "float32", cache, dump, reuse = "nothing";
  bool guided = false, keys = false;
};

sample::Reuse reuse_of(const std::string& word) {
  return word == "blocks"     ? sample::Reuse::BLOCKS
         : word == "branch"   ? sample::Reuse::BRANCH
         : word == "velocity" ? sample::Reuse::VELOCITY
                              : sample::Reuse::NOTHING;
}

/// What the step takes from an earlier one: noise of its shapes.
std::vector<pjrt::Buffer> kept_by(const sample::StepSpec& spec, const pjrt::Client& client) {
  std::vector<pjrt::Buffer> out;
  if (spec.reuse == sample::Reuse::BLOCKS) {
    const Dims& d = spec.latents;
    const auto& patch = spec.model.patch_size;
    const Dims dims{spec.guidance == sample::Guidance::NONE ? 1 : 2,
                    d[2] / patch[0] * (d[3] / patch[1]) * (d[4] / patch[2]), spec.model.dim()};
    out.push_back(client.to_device(convert(bench::noise(dims, 3), spec.options.activations_dtype)));
  } else if (sample::is_reuse(spec.reuse)) {
    out.push_back(client.to_device(bench::noise(spec.latents, 3)));
    out.push_back(client.to_device(bench::noise(spec.latents, 4)));
  }
  return out;
}

void run(const Settings& s) {
  const bench::Clock::time_point start = bench::Clock::now();
  pjrt::Client client = runtime::open_client({});
  sample::StepSpec spec{
      .latents = {1, s.channels, s.frames, s.height, s.width},
      .text_length = s.text,
      .guidance = s.guided ? sample::Guidance::DOUBLED_BATCH : sample::Guidance::NONE,
      .reuse = reuse_of(s.reuse),
      .keys = s.keys};
  spec.model.num_layers = s.layers;
  spec.model.num_attention_heads = s.heads;
  spec.model.attention_head_dim = s.head_dim;
  spec.model.ffn_dim = s.ffn;
  spec.model.text_dim = s.text_dim;
  spec.model.in_channels = spec.model.out_channels = s.channels;
  spec.options.weights_dtype = spec.options.activations_dtype = *dtype_from_string(s.dtype);
  const auto params = weights::initialise(wan::parameters(spec.model, spec.options), 0, client);
  bench::weights_are_there(params);
  sample::StepPrograms programs(client, {.executable_cache = s.cache, .dump = s.dump});
  const runtime::Program& program = programs.get(spec);

  const auto schedule = schedulers::make_schedule({}, s.steps + s.warmup);
  std::vector<pjrt::Buffer> given;
  given.push_back(client.to_device(bench::noise({s.guided ? 2 : 1, s.text, s.text_dim}, 1)));
  if (s.keys) {
    std::vector<const pjrt::Buffer*> arguments;
    for (const pjrt::Buffer& param : params) {
      arguments.push_back(&param);
    }
    arguments.push_back(&given[0]);
    given = programs.keys(spec).run(arguments);
  }
  for (pjrt::Buffer& each : kept_by(spec, client)) {
    given.push_back(std::move(each));
  }
  pjrt::Buffer x = client.to_device(bench::noise(spec.latents, 2));
  const auto zeros = [&] { return client.to_device(HostArray(Shape{DType::F32, spec.latents})); };
  pjrt::Buffer previous = zeros();
  pjrt::Buffer m1 = zeros();
  pjrt::Buffer m2 = zeros();
  double first = 0;
  int64_t step = 0;
  const auto seconds = bench::time_runs(s.warmup, s.steps, [&] {
    const pjrt::Buffer numbers =
        client.to_device(sample::step_numbers(schedule, step, {.guidance_scale = 5.0}));
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
  app.add_flag("--guided", s.guided, "with prompt and negative prompt, as one batch");
  app.add_flag("--keys", s.keys, "the text's keys and values are made beforehand");
  app.add_option("--reuse", s.reuse, "what the step takes from an earlier one")
      ->check(CLI::IsMember({"nothing", "blocks", "branch", "velocity"}));
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
