// Decoding one image with the KL autoencoder of Stable Diffusion XL or Flux, as `kinema generate`
// does it. One JSON line; bench/peers/torch_kl_decode.py takes the same arguments.
#include <filesystem>

#include "kinema/encoders/kl_autoencoder.h"
#include "kinema/io/temporary_folder.h"
#include "kinema/models/kl_autoencoder/config_file.h"
#include "kinema/runtime/client.h"
#include "measure.h"
#include "options.h"
#include "random_model.h"

namespace kinema {
namespace {

struct Settings {
  int64_t side = 256;
  bench::RunSettings run{.runs = 3};
};

void run(const Settings& s) {
  const bench::Clock::time_point start = bench::Clock::now();
  const io::TemporaryFolder folder("kinema-bench-kl");
  const kl_autoencoder::AutoencoderConfig config;
  std::vector<nn::ParamSpec> specs = kl_autoencoder::encoder_parameters(config, {});
  for (nn::ParamSpec& spec : kl_autoencoder::decoder_parameters(config, {})) {
    specs.push_back(std::move(spec));
  }
  bench::write_model(folder.path(), "diffusion_pytorch_model", kl_autoencoder::config_json(config),
                     specs, DType::F32, 0);
  pjrt::Client client = s.run.open();
  const DType dtype = s.run.precision();
  const encoders::KlAutoencoder vae(runtime::Devices(client), folder.path(),
                                    {.model = {.weights_dtype = dtype, .activations_dtype = dtype},
                                     .program = s.run.program("decode")});
  const HostArray latents = bench::noise(
      {config.latent_channels, 1, s.side / config.spatial(), s.side / config.spatial()}, 1);
  runtime::reset_peak_rss();
  double first = 0;
  double sum = 0;
  const auto seconds = bench::time_runs(s.run.warmup, s.run.runs, [&] {
    sum = 0;
    vae.decode(latents, [&](const HostArray& piece) { sum += bench::magnitude(piece); });
    first = first > 0 ? first : bench::seconds_since(start);
  });
  bench::print_result(seconds, 0, first, sum);
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::Settings s;
  kinema::command::Program program("kl_decode", "", "decoding with the VAE of images");
  kinema::command::Command command = program.itself();
  command.option("--side", s.side, "pixels");
  s.run.add_to(command);
  command.run(kinema::bench::action([&s] { kinema::run(s); }));
  return kinema::bench::parse_and_run(program, argc, argv);
}
