// The decoder of a Wan VAE over a short video, as `kinema generate` runs it: by chunks of one
// latent frame. One JSON line; bench/peers/torch_vae_decode.py takes the same arguments.
#include "kinema/encoders/vae_side.h"
#include "kinema/runtime/client.h"
#include "kinema/weights/weights.h"
#include "measure.h"
#include "options.h"

namespace kinema {
namespace {

struct Settings {
  std::string version = "2.1";
  int64_t frames = 9, height = 128, width = 128;
  int64_t chunk = 1;
  bench::RunSettings run{.runs = 3};
};

/// The published sizes.
vae::Config config_of(const std::string& version) {
  vae::Config config;
  if (version == "2.2") {
    config.base_dim = 160;
    config.decoder_base_dim = 256;
    config.z_dim = 48;
    config.is_residual = true;
    config.in_channels = config.out_channels = 12;
    config.patch_size = 2;
  }
  // Normalisation is not part of what is measured, but the configuration wants the numbers.
  config.latents_mean.assign(static_cast<size_t>(config.z_dim), 0.0);
  config.latents_std.assign(static_cast<size_t>(config.z_dim), 1.0);
  return config;
}

void run(const Settings& s) {
  const bench::Clock::time_point start = bench::Clock::now();
  pjrt::Client client = s.run.open();
  const vae::Config config = config_of(s.version);
  const DType dtype = s.run.precision();
  encoders::VaeSide decoder(encoders::VaeSide::Kind::DECODER, client, config,
                            {.weights_dtype = dtype, .activations_dtype = dtype},
                            s.run.program("decode"), [&](std::span<const nn::ParamSpec> specs) {
                              return weights::initialise(specs, 0, runtime::Devices(client));
                            });
  const HostArray latents = bench::noise({config.z_dim, (s.frames - 1) / config.temporal() + 1,
                                          s.height / config.spatial(), s.width / config.spatial()},
                                         1);
  double first = 0;
  double sum = 0;
  const auto seconds = bench::time_runs(s.run.warmup, s.run.runs, [&] {
    sum = 0;
    decoder.run(latents, s.chunk, [&](const HostArray& piece) { sum += bench::magnitude(piece); });
    first = first > 0 ? first : bench::seconds_since(start);
  });
  bench::print_result(seconds, 0, first, sum);
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::Settings s;
  kinema::command::Program program(
      "vae_decode", "", "decoding with a Wan VAE of the published sizes, random weights");
  kinema::command::Command command = program.itself();
  command.option("--version", s.version).one_of({"2.1", "2.2"});
  command.option("--frames", s.frames, "of the video");
  command.option("--height", s.height, "pixels");
  command.option("--width", s.width, "pixels");
  command.option("--chunk", s.chunk, "latent frames");
  s.run.add_to(command);
  command.run(kinema::bench::action([&s] { kinema::run(s); }));
  return kinema::bench::parse_and_run(program, argc, argv);
}
