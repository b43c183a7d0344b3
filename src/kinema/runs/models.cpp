#include "kinema/runs/models.h"

#include <algorithm>
#include <memory>
#include <system_error>

#include "kinema/core/error.h"
#include "kinema/remote/hub.h"
#include "kinema/remote/store_cache.h"
#include "kinema/runs/clips.h"
#include "kinema/runs/trained_model.h"
#include "kinema/runtime/client.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

/// The transformers of the pipeline that a run trains.
std::vector<std::string> trained_parts(const Expert& expert) {
  return expert.is_both() ? std::vector<std::string>{"transformer", "transformer_2"}
                          : std::vector<std::string>{expert.part()};
}

/// The parts of the pipeline's own folder that a command reads.
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
      !expert.is_both()) {  // the one that the run does not train
    parts.push_back(expert.other_part());
  }
  const bool reads_clips = use == Use::PREPARE || has_clips(config.data);
  const bool trains_on_images = use != Use::GENERATE && (reads_clips || videos);
  if (m.model_type == config::ModelType::I2V &&
      (use == Use::GENERATE_FROM_RUN || trains_on_images)) {
    parts.insert(parts.end(), {"image_encoder", "image_processor"});
  }
  const bool encodes = use != Use::TRAIN || has_clips(config.data) || videos;
  if (encodes && m.autoencoder == config::Autoencoder::WAN &&
      m.wan_vae_pretrained_model_name_or_path.empty()) {
    parts.emplace_back("vae");
  }
  const bool reads_text = encodes || config.optimizer.caption_dropout > 0;
  if (reads_text && m.text_encoder == config::TextEncoder::UMT5 &&
      m.wan_text_encoder_pretrained_model_name_or_path.empty()) {
    parts.insert(parts.end(), {"text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2"});
  }
  if (std::ranges::find(parts, "transformer") != parts.end()) {
    parts.emplace_back("unet");  // in the pipelines that have one in its place
  }
  // A checkpoint keeps it; a transformer from elsewhere is no reason to ask for the pipeline.
  if (use != Use::PREPARE && !parts.empty()) {
    parts.emplace_back("scheduler");
  }
  return parts;
}

}  // namespace

remote::DownloadProgress download_progress(const std::string& name, const Job& job) {
  return [tell = job.progress("MB of " + name)](int64_t done, int64_t total) {
    constexpr int64_t kMegabyte = 1'000'000;
    tell(done / kMegabyte, std::max<int64_t>(total / kMegabyte, 1));
  };
}

fs::path local_model(const std::string& name, const std::string& revision,
                     const remote::Wanted& wanted, const Job& job) {
  std::error_code ignored;
  if (name.empty() || fs::exists(name, ignored)) {
    return name;
  }
  if (const auto path = remote::read_store_path(name)) {
    return remote::fetch_from_store(*path,
                                    {.cache = fs::path(runtime::cache_folder()) / "stores" / "read",
                                     .choose =
                                         [&](const std::vector<std::string>& names) {
                                           return remote::choose_files(names, wanted, name);
                                         }},
                                    download_progress(name, job));
  }
  const auto id = remote::read_hub_id(name, revision.empty() ? "main" : revision);
  if (!id || fs::is_directory(fs::path(name).parent_path(), ignored)) {
    return name;  // a path: where its folder is here, what it names was meant to be here too
  }
  remote::Wanted all = wanted;
  if (!id->file.empty()) {
    all = {.file = id->file};
  }
  return remote::fetch_from_hub(*id, all, remote::HubOptions::from_environment(),
                                download_progress(id->repo, job));
}

fs::path local_dataset(
    const std::string& name,
    const std::function<std::vector<std::string>(std::vector<std::string>)>& choose,
    const Job& job) {
  auto id = remote::read_hub_id(name);
  check(id.has_value() && id->file.empty(),
        "[config] the data set `{}` is neither here nor an id like org/name", name);
  id->dataset = true;
  return remote::fetch_from_hub(*id, {.choose = choose}, remote::HubOptions::from_environment(),
                                download_progress(id->repo, job));
}

config::Loaded with_local_models(config::Loaded loaded, Use use, const Job& job) {
  config::ModelConfig& m = loaded.config.model;
  const auto resolve = [&](std::string& name, const std::vector<std::string>& parts) {
    if (!parts.empty()) {
      name = local_model(name, m.revision, {.parts = parts}, job);
    }
  };
  if (!m.lightning_repo.empty() && m.wan_transformer_pretrained_model_name_or_path.empty()) {
    check(!m.lightning_ckpt.empty(), "[config] lightning_repo is {}, but lightning_ckpt is empty",
          m.lightning_repo);
    // It may come from a picture's settings, whose author must not reach files elsewhere.
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

}  // namespace kinema::runs
