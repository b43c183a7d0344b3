#include <deque>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/model_folder.h"
#include "kinema/model_files/single_file.h"
#include "kinema/model_files/vae_config.h"
#include "kinema/models/clip/text.h"
#include "kinema/models/kl_autoencoder/coder.h"
#include "kinema/models/kl_autoencoder/config_file.h"
#include "kinema/models/qwen3/encoder.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/models/vae/coder.h"
#include "kinema/networks/convert.h"
#include "kinema/networks/convert_entries.h"
#include "kinema/networks/open.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/kl_config.h"
#include "kinema/weights/qwen3.h"
#include "kinema/weights/t5.h"

namespace kinema::networks {
namespace {

namespace fs = std::filesystem;
using model_files::Checkpoint;

/// A model of the pipeline, checked against its configuration.
struct Part {
  std::string name;
  Checkpoint files;
  io::Json config;
  Keys keys;  // its parameters, without the buffers of older files
  std::string stem = "diffusion_pytorch_model";
};

Keys keys_of(std::span<const nn::ParamSpec> specs) {
  Keys out;
  for (const nn::ParamSpec& spec : specs) {
    out.insert(spec.name);
  }
  return out;
}

Part network_of(const fs::path& source) {
  Checkpoint files = Checkpoint::open(source);
  check_is_network(files);
  const Network network = open(files);
  const std::vector<nn::ParamSpec> specs = network->parameters({.scan_layers = false});
  weights::check_tensors(files, specs);
  return {.name = std::string(model_files::find_family(files)->part),
          .files = std::move(files),
          .config = network->config(),
          .keys = keys_of(specs)};
}

Part vae_of(const fs::path& source) {
  Checkpoint files = Checkpoint::open(source, model_files::kVae);
  if (model_files::is_vae_file(source)) {
    const vae::Config config = model_files::vae_config(files);
    Keys keys = keys_of(vae::parameters(config, {}));
    return {.name = std::string(model_files::kVae),
            .files = std::move(files),
            .config = model_files::vae_config_json(config),
            .keys = std::move(keys)};
  }
  const kl_autoencoder::AutoencoderConfig config = weights::kl_config(files);
  weights::check_kl_tensors(files, config);
  Keys keys = keys_of(kl_autoencoder::encoder_parameters(config, {}));
  keys.merge(keys_of(kl_autoencoder::decoder_parameters(config, {})));
  return {.name = std::string(model_files::kVae),
          .files = std::move(files),
          .config = kl_autoencoder::config_json(config),
          .keys = std::move(keys)};
}

Part t5_of(Checkpoint files, std::string_view name) {
  const t5::EncoderConfig config = weights::t5_config(files);
  weights::check_t5_tensors(files, config);
  Keys keys = keys_of(t5::parameters(config, {.scan_layers = false}));
  for (const char* table : {"shared.weight", "encoder.embed_tokens.weight"}) {
    if (files.find(table) != nullptr) {
      keys.insert(table);
    }
  }
  return {.name = std::string(name),
          .files = std::move(files),
          .config = weights::t5_config_json(config),
          .keys = std::move(keys),
          .stem = "model"};
}

/// With the last layer and the norm where the file has them.
Part qwen3_of(Checkpoint files, std::string_view name) {
  const qwen3::EncoderConfig config = weights::qwen3_config(files);
  weights::check_qwen3_tensors(files, config);
  Keys keys = keys_of(qwen3::parameters(config, {.scan_layers = false, .skipped_layers = 0}));
  keys.insert(qwen3::embedding_table(config).name);
  std::erase_if(keys, [&](const std::string& key) { return files.find(key) == nullptr; });
  return {.name = std::string(name),
          .files = std::move(files),
          .config = weights::qwen3_config_json(config),
          .keys = std::move(keys),
          .stem = "model"};
}

Part text_encoder_of(const fs::path& source, std::string_view name) {
  Checkpoint files = Checkpoint::open(source, name);
  if (weights::is_qwen3_encoder(files)) {
    return qwen3_of(std::move(files), name);
  }
  if (weights::is_t5_encoder(files)) {
    return t5_of(std::move(files), name);
  }
  const clip::TextConfig config = weights::clip_text_config(files);
  weights::check_clip_text_tensors(files, config);
  const std::string prefix = weights::clip_text_prefix(files);
  Keys keys = keys_of(clip::text_parameters(config, prefix, {.scan_layers = false}));
  keys.insert(clip::token_embedding(config, prefix).name);
  return {.name = std::string(name),
          .files = std::move(files),
          .config = weights::clip_text_config_json(config),
          .keys = std::move(keys),
          .stem = "model"};
}

}  // namespace

std::vector<std::string> convert_parts(const fs::path& source, const fs::path& target,
                                       const ConvertOptions& options) {
  check(options.to == Format::DIFFUSERS,
        "[weights] {} contains several models: --to diffusers writes them as one folder",
        source.string());
  std::deque<Part> parts;  // a deque, so that parts keep their address
  parts.push_back(network_of(source));
  for (const std::string_view name : model_files::parts_in(source)) {
    parts.push_back(name == model_files::kVae ? vae_of(source) : text_encoder_of(source, name));
  }
  std::error_code ignored;
  check(!fs::exists(fs::symlink_status(target, ignored)),
        "[weights] {} exists already\n  remove it, or choose another path", target.string());
  int64_t total = 0;
  for (const Part& part : parts) {
    total += static_cast<int64_t>(part.keys.size());
  }
  std::vector<std::string> names;
  try {
    int64_t before = 0;
    for (const Part& part : parts) {
      ConvertOptions own = options;
      if (options.progress) {
        own.progress = [&, before](int64_t done, int64_t) {
          options.progress(before + done, total);
        };
      }
      std::vector<Written> tensors = written(part.files, Format::DIFFUSERS);
      std::erase_if(tensors, [&](const Written& each) { return !part.keys.contains(each.name); });
      io::write_model_folder(target / part.name, part.config, entries_of(tensors, own),
                             {.max_shard_bytes = options.max_shard_bytes, .stem = part.stem});
      part.files.check_intact();
      before += static_cast<int64_t>(part.keys.size());
      names.push_back(part.name);
    }
  } catch (...) {
    fs::remove_all(target, ignored);  // did not exist before
    throw;
  }
  return names;
}

}  // namespace kinema::networks
