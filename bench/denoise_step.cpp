// One denoising step as `kinema generate` runs it: the transformer's forward pass, guidance where
// asked for, and the solver's update, latents on the device. One JSON line;
// bench/peers/torch_denoise_step.py takes the same arguments, but for --guided, --keys and --reuse.
#include "kinema/sample/denoise_step.h"
#include "kinema/runtime/client.h"
#include "kinema/schedulers/schedule.h"
#include "kinema/weights/weights.h"
#include "measure.h"
#include "options.h"

namespace kinema {
namespace {

struct Settings {
  bench::TransformerSettings model{.layers = 2,
                                   .heads = 12,
                                   .head_dim = 128,
                                   .ffn = 8960,
                                   .frames = 4,
                                   .height = 32,
                                   .width = 32};
  bench::RunSettings run;
  std::string reuse = "nothing";
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
    const int64_t contexts = spec.guidance == sample::Guidance::NONE ? 1 : 2;
    const Shape shape = spec.network->block_sum_value(spec.options, contexts, spec.latents).shape;
    out.push_back(client.to_device(convert(bench::noise(shape.dims, 3), shape.dtype)));
  } else if (sample::is_reuse(spec.reuse)) {
    out.push_back(client.to_device(bench::noise(spec.latents, 3)));
    out.push_back(client.to_device(bench::noise(spec.latents, 4)));
  }
  return out;
}

void run(const Settings& s) {
  const bench::Clock::time_point start = bench::Clock::now();
  pjrt::Client client = s.run.open();
  const bench::TransformerSettings& m = s.model;
  sample::StepSpec spec{
      .network = m.network(),
      .latents = {1, m.channels, m.frames, m.height, m.width},
      .text_length = m.text,
      .guidance = s.guided ? sample::Guidance::DOUBLED_BATCH : sample::Guidance::NONE,
      .reuse = reuse_of(s.reuse),
      .keys = s.keys};
  spec.options.weights_dtype = spec.options.activations_dtype = s.run.precision();
  spec.options.attention.kind = nn::AttentionKind::FLASH;  // as configs/wan.yml has it
  const auto params = weights::initialise(spec.network->parameters(spec.options), 0, client);
  bench::weights_are_there(params);
  sample::StepPrograms programs(client, s.run.program("denoise_step"));
  const runtime::Program& program = programs.get(spec);

  const auto schedule = schedulers::make_schedule({}, s.run.runs + s.run.warmup);
  std::vector<pjrt::Buffer> given;
  given.push_back(client.to_device(bench::noise({s.guided ? 2 : 1, m.text, m.text_dim}, 1)));
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
  const auto seconds = bench::time_runs(s.run.warmup, s.run.runs, [&] {
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
  bench::print_result(seconds, programs.compile_seconds(), first, bench::magnitude(x.to_host()),
                      bench::peak_device_bytes(client));
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::Settings s;
  kinema::command::Program program("denoise_step", "", "one denoising step of a Wan transformer");
  kinema::command::Command command = program.itself();
  s.model.add_to(command);
  s.run.add_to(command, "--steps");
  command.flag("--guided", s.guided, "with prompt and negative prompt, as one batch");
  command.flag("--keys", s.keys, "the text's keys and values are made beforehand");
  command.option("--reuse", s.reuse, "what the step takes from an earlier one")
      .one_of({"nothing", "blocks", "branch", "velocity"});
  command.run(kinema::bench::action([&s] { kinema::run(s); }));
  return kinema::bench::parse_and_run(program, argc, argv);
}
