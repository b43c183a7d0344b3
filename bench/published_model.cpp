// Writes a diffusers folder of a published size with random weights, for `./dev bench real`: the
// sizes of Wan 2.1 T2V 1.3B (transformer and UMT5-XXL in bfloat16, VAE in float32) unless smaller
// ones are asked for. The same seed gives the same bytes. The tokenizer is copied from --tokenizer.
#include <cmath>
#include <filesystem>
#include <functional>

#include "kinema/core/bf16.h"
#include "kinema/core/parallel.h"
#include "kinema/core/threefry.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/model_folder.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/models/vae/coder.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/networks/open.h"
#include "kinema/weights/vae_config.h"
#include "measure.h"
#include "options.h"

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

/// SplitMix64 (Steele, Lea and Flood, 2014): four 16-bit uniforms from each number.
class Uniforms {
 public:
  explicit Uniforms(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

 private:
  uint64_t state_;
};

/// Where a parameter's values lie: in [middle - reach, middle + reach].
struct Range {
  double middle = 0;
  double reach = 0;
};

/// Sums of many products stay of the size of one; norms are near 1.
Range range_of(const nn::ParamSpec& spec) {
  if (spec.init.kind == nn::Init::Kind::CONSTANT) {
    return {spec.init.scale, 0.1 * spec.init.scale};
  }
  const Dims& dims = spec.shape.dims;
  int64_t fan_in = 1;
  for (size_t i = 1; i < dims.size(); ++i) {
    fan_in *= dims[i];
  }
  return {0, dims.size() < 2 ? 0.02 : std::sqrt(3.0 / static_cast<double>(fan_in))};
}

/// Random values of a tensor, in pieces, each a function of seed, name and its number.
void write_random(const nn::ParamSpec& spec, DType dtype, uint64_t seed, const io::ByteSink& sink) {
  constexpr int64_t kChunk = int64_t{1} << 20;
  constexpr int64_t kAtOnce = 16;
  const Range range = range_of(spec);
  const int64_t elements = spec.shape.elements();
  const int64_t chunks = (elements + kChunk - 1) / kChunk;
  const auto threads = static_cast<int>(std::thread::hardware_concurrency());
  for (int64_t first = 0; first < chunks; first += kAtOnce) {
    const int64_t count = std::min(kAtOnce, chunks - first);
    std::vector<HostArray> made(static_cast<size_t>(count));
    for_each_in_parallel(made.size(), threads, [&](size_t i) {
      const int64_t chunk = first + static_cast<int64_t>(i);
      const auto key = random_key(seed, spec.name, static_cast<uint64_t>(chunk));
      Uniforms uniforms((static_cast<uint64_t>(key[0]) << 32U) | key[1]);
      HostArray values(Shape{DType::F32, {std::min(kChunk, elements - chunk * kChunk)}});
      const std::span<float> to = values.as<float>();
      const auto scale = static_cast<float>(range.reach / 32768.0);
      const auto middle = static_cast<float>(range.middle);
      for (size_t at = 0; at < to.size(); at += 4) {
        const uint64_t bits = uniforms.next();
        for (size_t k = 0; k < 4 && at + k < to.size(); ++k) {
          to[at + k] = middle + scale * static_cast<float>(static_cast<int16_t>(bits >> (16 * k)));
        }
      }
      made[i] = dtype == DType::F32 ? std::move(values) : convert(values, dtype);
    });
    for (const HostArray& each : made) {
      sink(each.bytes);
    }
  }
}

void write_model(const fs::path& folder, const std::string& stem, const io::Json& config,
                 const std::vector<nn::ParamSpec>& specs, DType dtype, uint64_t seed) {
  std::vector<io::TensorEntry> entries;
  for (const nn::ParamSpec& spec : specs) {
    entries.push_back(
        {spec.name, Shape{dtype, spec.shape.dims}, [&spec, dtype, seed](const io::ByteSink& sink) {
           write_random(spec, dtype, seed, sink);
         }});
  }
  io::write_model_folder(folder, config, entries,
                         {.max_shard_bytes = int64_t{5} << 30, .stem = stem});
}

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
  write_model(folder / "transformer", "diffusion_pytorch_model", transformer->config(),
              transformer->parameters({.scan_layers = false}), DType::BF16, s.seed);
  vae::Config vae;
  vae.latents_mean = vae::default_latents_mean();
  vae.latents_std = vae::default_latents_std();
  write_model(folder / "vae", "diffusion_pytorch_model", weights::vae_config_json(vae),
              vae::parameters(vae, {}), DType::F32, s.seed);
  const t5::EncoderConfig text{.num_layers = s.text_layers};
  std::vector<nn::ParamSpec> specs = t5::parameters(text, {.scan_layers = false});
  specs.push_back(t5::embedding_table(text));
  write_model(folder / "text_encoder", "model", text_config(text), specs, DType::BF16, s.seed);
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
