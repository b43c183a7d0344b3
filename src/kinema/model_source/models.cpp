#include "kinema/model_source/models.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/stores/local_copies.h"

namespace kinema::model_source {
namespace {

namespace fs = std::filesystem;

/// The transformers of the pipeline that a run trains.
std::vector<std::string> trained_parts(const Expert& expert) {
  return expert.is_both() ? std::vector<std::string>{"transformer", "transformer_2"}
                          : std::vector<std::string>{expert.part()};
}

/// The parts of the pipeline's folder that a command reads.
std::vector<std::string> needed_parts(const config::Config& config, Use use) {
  const config::ModelConfig& m = config.model;
  std::vector<std::string> parts;
  const bool denoises = use == Use::GENERATE || use == Use::TRAIN;
  const Expert expert{.which = config.optimizer.train_expert};
  if (denoises && m.wan_transformer_pretrained_model_name_or_path.empty()) {
    parts = use == Use::TRAIN ? trained_parts(expert) : std::vector<std::string>{"transformer"};
  }
  if (use == Use::GENERATE) {
    parts.insert(parts.end(), {"transformer_2", "image_encoder", "image_processor"});
  }
  const bool videos = makes_videos(config.run);
  if ((use == Use::GENERATE_FROM_RUN || (use == Use::TRAIN && videos)) &&
      expert.which != config::TrainExpert::NONE &&
      !expert.is_both()) {  // the expert that the run does not train
    parts.push_back(expert.other_part());
  }
  const bool reads_clips = use == Use::PREPARE || config::has_clips(config.data);
  const bool trains_on_images = use != Use::GENERATE && (reads_clips || videos);
  if (m.model_type == config::ModelType::I2V &&
      (use == Use::GENERATE_FROM_RUN || trains_on_images)) {
    parts.insert(parts.end(), {"image_encoder", "image_processor"});
  }
  const bool encodes = use != Use::TRAIN || config::has_clips(config.data) || videos;
  if (encodes && m.autoencoder == config::Autoencoder::WAN &&
      m.wan_vae_pretrained_model_name_or_path.empty()) {
    parts.emplace_back("vae");
  }
  const bool reads_text = encodes || config.optimizer.caption_dropout > 0;
  if (reads_text && m.text_encoder == config::TextEncoder::UMT5 &&
      m.wan_text_encoder_pretrained_model_name_or_path.empty()) {
    parts.insert(parts.end(), {"tokenizer", "tokenizer_2"});
    if (m.text_encoder_file.empty()) {
      parts.emplace_back("text_encoder");
    }
    if (m.text_encoder_2_file.empty()) {
      parts.emplace_back("text_encoder_2");
    }
  }
  if (std::ranges::find(parts, "transformer") != parts.end()) {
    parts.emplace_back("unet");  // for pipelines with a UNet
  }
  // Checkpoints store the scheduler. If only it were missing, the pipeline would not be needed.
  if (use != Use::PREPARE && !parts.empty()) {
    parts.emplace_back("scheduler");
  }
  return parts;
}

}  // namespace

config::Loaded with_local_models(config::Loaded loaded, Use use, const Job& job) {
  config::ModelConfig& m = loaded.config.model;
  const auto resolve = [&](std::string& name, const std::vector<std::string>& parts) {
    if (!parts.empty()) {
      name = stores::local_model(name, m.revision, {.parts = parts}, job);
    }
  };
  if (!m.lightning_repo.empty() && m.wan_transformer_pretrained_model_name_or_path.empty()) {
    check(!m.lightning_ckpt.empty(), "[config] lightning_repo is {}, but lightning_ckpt is empty",
          m.lightning_repo);
    // The key may come from another user's picture, which must not select files outside the folder.
    const bool is_inside = !fs::path(m.lightning_ckpt).is_absolute() &&
                           std::ranges::count(fs::path(m.lightning_ckpt), "..") == 0;
    check(is_inside, "[config] lightning_ckpt is {}, expected a file inside of lightning_repo",
          m.lightning_ckpt);
    m.wan_transformer_pretrained_model_name_or_path = m.lightning_repo + "/" + m.lightning_ckpt;
  }
  resolve(m.pretrained_model_name_or_path, needed_parts(loaded.config, use));
  if (use == Use::GENERATE || use == Use::TRAIN) {
    const Expert expert{.which = loaded.config.optimizer.train_expert};
    resolve(m.wan_transformer_pretrained_model_name_or_path,
            use == Use::TRAIN ? trained_parts(expert)
                              : std::vector<std::string>{"transformer", "transformer_2"});
  }
  if (m.autoencoder == config::Autoencoder::WAN) {
    resolve(m.wan_vae_pretrained_model_name_or_path, {"vae"});
  }
  if (m.text_encoder == config::TextEncoder::UMT5) {
    resolve(m.wan_text_encoder_pretrained_model_name_or_path,
            {"text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2"});
  }
  return loaded;
}

}  // namespace kinema::model_source
