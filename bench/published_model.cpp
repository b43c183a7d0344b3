// Writes a diffusers folder of a published size with random weights, for `./dev bench real`: the
// sizes of Wan 2.1 T2V 1.3B (transformer and UMT5-XXL in bfloat16, VAE in float32) unless smaller
// ones are asked for. The same seed gives the same bytes. The tokenizer is copied from --tokenizer.
#include <filesystem>
#include <functional>

#include "kinema/io/atomic_write.h"
#include "kinema/model_files/vae_config.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/models/vae/coder.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/networks/open.h"
#include "measure.h"
#include "options.h"
#include "random_model.h"

namespace kinema {
namespace {

namespace fs = std::filesystem;

struct Settings {
  std::string folder;
  std::string tokenizer;
  int64_t seed = 0;
  int64_t layers = 30;       // of the transformer
  int64_t text_layers = 24;  // of UMT5
};

/// The 1.3B's sizes, arXiv:2503.20314.
networks::Network transformer_network(const Settings& s) {
  io::Json config = networks::default_config();
  config.set("num_layers", s.layers);
  return networks::from_config(config);
}

io::Json text_config(const t5::EncoderConfig& c) {
  return io::Json::object({{"architectures", io::Json::array({"UMT5EncoderModel"})},
                           {"d_ff", c.d_ff},
                           {"d_kv", c.d_kv},
                           {"d_model", c.d_model},
                           {"dense_act_fn", "gelu_new"},
                           {"feed_forward_proj", "gated-gelu"},
                           {"layer_norm_epsilon", c.layer_norm_epsilon},
                           {"model_type", "umt5"},
                           {"num_heads", c.num_heads},
                           {"num_layers", c.num_layers},
                           {"relative_attention_max_distance", c.relative_attention_max_distance},
                           {"relative_attention_num_buckets", c.relative_attention_num_buckets},
                           {"vocab_size", c.vocab_size}});
}

io::Json index() {
  const auto part = [](const char* library, const char* name) {
    return io::Json::array({library, name});
  };
  return io::Json::object({{"_class_name", "WanPipeline"},
                           {"expand_timesteps", false},
                           {"scheduler", part("diffusers", "UniPCMultistepScheduler")},
                           {"text_encoder", part("transformers", "UMT5EncoderModel")},
                           {"tokenizer", part("transformers", "T5TokenizerFast")},
                           {"transformer", part("diffusers", "WanTransformer3DModel")},
                           {"vae", part("diffusers", "AutoencoderKLWan")}});
}

io::Json scheduler() {
  return io::Json::object({{"_class_name", "UniPCMultistepScheduler"},
                           {"flow_shift", 3.0},
                           {"num_train_timesteps", 1000},
                           {"prediction_type", "flow_prediction"},
                           {"solver_order", 2},
                           {"solver_type", "bh2"},
                           {"use_flow_sigmas", true}});
}

void run(const Settings& s) {
  const fs::path folder = s.folder;
  const networks::Network transformer = transformer_network(s);
  bench::write_model(folder / "transformer", "diffusion_pytorch_model", transformer->config(),
                     transformer->parameters({.scan_layers = false}), DType::BF16, s.seed);
  vae::Config vae;
  vae.latents_mean = vae::default_latents_mean();
  vae.latents_std = vae::default_latents_std();
  bench::write_model(folder / "vae", "diffusion_pytorch_model", model_files::vae_config_json(vae),
                     vae::parameters(vae, {}), DType::F32, s.seed);
  const t5::EncoderConfig text{.num_layers = s.text_layers};
  std::vector<nn::ParamSpec> specs = t5::parameters(text, {.scan_layers = false});
  specs.push_back(t5::embedding_table(text));
  bench::write_model(folder / "text_encoder", "model", text_config(text), specs, DType::BF16,
                     s.seed);
  fs::copy(s.tokenizer, folder / "tokenizer", fs::copy_options::recursive);
  fs::create_directories(folder / "scheduler");
  io::write_file(folder / "scheduler" / "scheduler_config.json", scheduler().dump());
  io::write_file(folder / "model_index.json", index().dump());
}

}  // namespace
}  // namespace kinema

int main(int argc, char** argv) {
  kinema::Settings s;
  kinema::command::Program program("published_model", "",
                                   "writes a pipeline of published sizes with random weights");
  kinema::command::Command command = program.itself();
  command.option("FOLDER", s.folder).required();
  command.option("--tokenizer", s.tokenizer).required();
  command.option("--seed", s.seed);
  command.option("--layers", s.layers, "of the transformer");
  command.option("--text-layers", s.text_layers, "of UMT5");
  command.run(kinema::bench::action([&s] { kinema::run(s); }));
  return kinema::bench::parse_and_run(program, argc, argv);
}
