// Writes a diffusers folder of Stable Diffusion XL (in float16) or Flux.1 dev (in bfloat16) at the
// published sizes with random weights, for `./dev bench images`. The same seed gives the same
// bytes. Configurations, tokenizers and scheduler are those of a small pipeline of the family, with
// sizes in place of its own.
#include <filesystem>
#include <map>

#include "kinema/models/clip/text.h"
#include "kinema/models/kl_autoencoder/coder.h"
#include "kinema/models/kl_autoencoder/config_file.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/networks/open.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/t5.h"
#include "measure.h"
#include "options.h"
#include "random_model.h"

namespace kinema {
namespace {

namespace fs = std::filesystem;
using io::Json;

struct Settings {
  std::string family, folder, small;
  int64_t seed = 0;
  double share = 1;  // of T5's layers and of the transformer's blocks, for a trial
};

Json with(Json config, const std::map<std::string, int64_t>& sizes) {
  for (const auto& [key, value] : sizes) {
    config.set(key, value);
  }
  return config;
}

void write_clip(const Settings& s, const std::string& part,
                const std::map<std::string, int64_t>& sizes, DType dtype) {
  const Json config = with(Json::read(fs::path(s.small) / part / "config.json"), sizes);
  const clip::TextConfig c = weights::parse_clip_text_config(config);
  std::vector<nn::ParamSpec> specs = clip::text_parameters(c, "text_model", {.scan_layers = false});
  specs.push_back(clip::token_embedding(c, "text_model"));
  bench::write_model(fs::path(s.folder) / part, "model", config, specs, dtype,
                     static_cast<uint64_t>(s.seed));
}

void write_t5(const Settings& s, DType dtype) {
  const Json config = with(Json::read(fs::path(s.small) / "text_encoder_2" / "config.json"),
                           {{"d_model", 4096},
                            {"d_kv", 64},
                            {"d_ff", 10240},
                            {"num_heads", 64},
                            {"num_layers", static_cast<int64_t>(24 * s.share)},
                            {"vocab_size", 32128}});
  const t5::EncoderConfig c = weights::parse_t5_config(config);
  std::vector<nn::ParamSpec> specs = t5::parameters(c, {.scan_layers = false});
  specs.push_back(t5::embedding_table(c));
  bench::write_model(fs::path(s.folder) / "text_encoder_2", "model", config, specs, dtype,
                     static_cast<uint64_t>(s.seed));
}

void write_vae(const Settings& s, kl_autoencoder::AutoencoderConfig config, DType dtype) {
  std::vector<nn::ParamSpec> specs = kl_autoencoder::encoder_parameters(config, {});
  for (nn::ParamSpec& spec : kl_autoencoder::decoder_parameters(config, {})) {
    specs.push_back(std::move(spec));
  }
  bench::write_model(fs::path(s.folder) / "vae", "diffusion_pytorch_model",
                     kl_autoencoder::config_json(config), specs, dtype,
                     static_cast<uint64_t>(s.seed));
}

void run(const Settings& s) {
  const bool is_flux = s.family == "flux";
  const DType dtype = is_flux ? DType::BF16 : DType::F16;
  Json config = *networks::released_config(is_flux ? "black-forest-labs/FLUX.1-dev"
                                                   : "stabilityai/stable-diffusion-xl-base-1.0");
  if (is_flux && s.share < 1) {
    config.set("num_layers", static_cast<int64_t>(19 * s.share));
    config.set("num_single_layers", static_cast<int64_t>(38 * s.share));
  }
  const networks::Network network = networks::from_config(config);
  const fs::path folder = s.folder;
  bench::write_model(folder / (is_flux ? "transformer" : "unet"), "diffusion_pytorch_model",
                     network->config(), network->parameters({.scan_layers = false}), dtype,
                     static_cast<uint64_t>(s.seed));
  const std::map<std::string, int64_t> large{{"hidden_size", 768},      {"intermediate_size", 3072},
                                             {"num_hidden_layers", 12}, {"num_attention_heads", 12},
                                             {"projection_dim", 768},   {"vocab_size", 49408}};
  write_clip(s, "text_encoder", large, dtype);
  kl_autoencoder::AutoencoderConfig vae;
  if (is_flux) {
    write_t5(s, dtype);
    vae.latent_channels = 16;
    vae.use_quant_conv = vae.use_post_quant_conv = false;
    vae.scaling_factor = 0.3611;
    vae.shift_factor = 0.1159;
  } else {
    write_clip(s, "text_encoder_2",
               {{"hidden_size", 1280},
                {"intermediate_size", 5120},
                {"num_hidden_layers", 32},
                {"num_attention_heads", 20},
                {"projection_dim", 1280},
                {"vocab_size", 49408}},
               dtype);
  }
  write_vae(s, vae, dtype);
  for (const char* part : {"tokenizer", "tokenizer_2", "scheduler"}) {
    fs::copy(fs::path(s.small) / part, folder / part, fs::copy_options::recursive);
  }
  fs::copy(fs::path(s.small) / "model_index.json", folder / "model_index.json");
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::Settings s;
  kinema::command::Program program("published_images", "",
                                   "writes a pipeline of images with random weights");
  kinema::command::Command command = program.itself();
  command.option("FAMILY", s.family).required().one_of({"flux", "sdxl"});
  command.option("FOLDER", s.folder).required();
  command.option("--small", s.small, "a small pipeline of the family").required();
  command.option("--seed", s.seed);
  command.option("--share", s.share, "of Flux's layers and of T5's");
  command.run(kinema::bench::action([&s] { kinema::run(s); }));
  return kinema::bench::parse_and_run(program, argc, argv);
}
