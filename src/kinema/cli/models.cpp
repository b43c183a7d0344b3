#include "kinema/cli/models.h"

#include <algorithm>
#include <memory>
#include <system_error>

#include "kinema/cli/clips.h"
#include "kinema/cli/progress.h"
#include "kinema/cli/trained_model.h"
#include "kinema/core/error.h"
#include "kinema/remote/hub.h"
#include "kinema/remote/store_cache.h"
#include "kinema/runtime/client.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

/// The parts of the pipeline's own folder that a command reads.
std::vector<std::string> needed_parts(const config::Config& config, Use use) {
  const config::ModelConfig& m = config.model;
  std::vector<std::string> parts;
  const bool denoises = use == Use::GENERATE || use == Use::TRAIN;
  const Expert expert{.name = config.optimizer.train_expert};
  if (denoises && m.wan_transformer_pretrained_model_name_or_path.empty()) {
    parts.emplace_back(use == Use::TRAIN ? expert.part() : "transformer");
  }
  if (use == Use::GENERATE) {
    parts.insert(parts.end(), {"transformer_2", "image_encoder", "image_processor"});
  }
  const bool videos = makes_videos(config.run);
  if ((use == Use::GENERATE_FROM_RUN || (use == Use::TRAIN && videos)) &&
      expert.name != "none") {  // the one that the run does not train
    parts.push_back(expert.other_part());
  }
  const bool reads_clips = use == Use::PREPARE || has_clips(config.data);
  const bool trains_on_images = use != Use::GENERATE && (reads_clips || videos);
  if (m.model_type == "I2V" && (use == Use::GENERATE_FROM_RUN || trains_on_images)) {
    parts.insert(parts.end(), {"image_encoder", "image_processor"});
  }
  const bool encodes = use != Use::TRAIN || has_clips(config.data) || videos;
  if (encodes && m.autoencoder == "wan" && m.wan_vae_pretrained_model_name_or_path.empty()) {
    parts.emplace_back("vae");
  }
  const bool reads_text = encodes || config.optimizer.caption_dropout > 0;
  if (reads_text && m.text_encoder == "umt5" &&
      m.wan_text_encoder_pretrained_model_name_or_path.empty()) {
    parts.insert(parts.end(), {"text_encoder", "tokenizer"});
  }
  // A checkpoint keeps it; a transformer from elsewhere is no reason to ask for the pipeline.
  if (use != Use::PREPARE && !parts.empty()) {
    parts.emplace_back("scheduler");
  }
  return parts;
}

}  // namespace

remote::DownloadProgress download_bar(const std::string& name) {
  return [name, bar = std::shared_ptr<Progress>()](int64_t done, int64_t total) mutable {
    constexpr int64_t kMegabyte = 1'000'000;  // shared: std::function wants to copy what it holds
    if (!bar) {
      bar = std::make_shared<Progress>("MB of " + name, std::max<int64_t>(total / kMegabyte, 1));
    }
    bar->update(done / kMegabyte);
  };
}

fs::path local_model(const std::string& name, const std::string& revision,
                     const remote::Wanted& wanted) {
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
                                    download_bar(name));
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
                                download_bar(id->repo));
}

fs::path local_dataset(
    const std::string& name,
    const std::function<std::vector<std::string>(std::vector<std::string>)>& choose) {
  auto id = remote::read_hub_id(name);
  check(id.has_value() && id->file.empty(),
        "[config] the data set `{}` is neither here nor an id like org/name", name);
  id->dataset = true;
  return remote::fetch_from_hub(*id, {.choose = choose}, remote::HubOptions::from_environment(),
                                download_bar(id->repo));
}

void fetch_models(config::Config& config, Use use) {
  config::ModelConfig& m = config.model;
  const auto resolve = [&](std::string& name, const std::vector<std::string>& parts) {
    if (!parts.empty()) {
      name = local_model(name, m.revision, {.parts = parts});
    }
  };
  resolve(m.pretrained_model_name_or_path, needed_parts(config, use));
  if (use == Use::GENERATE || use == Use::TRAIN) {
    const Expert expert{.name = config.optimizer.train_expert};
    resolve(m.wan_transformer_pretrained_model_name_or_path,
            {use == Use::TRAIN ? expert.part() : "transformer"});
  }
  if (m.autoencoder == "wan") {
    resolve(m.wan_vae_pretrained_model_name_or_path, {"vae"});
  }
  if (m.text_encoder == "umt5") {
    resolve(m.wan_text_encoder_pretrained_model_name_or_path, {"text_encoder", "tokenizer"});
  }
}

}  // namespace kinema::cli
