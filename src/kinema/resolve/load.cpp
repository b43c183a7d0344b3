#include "kinema/resolve/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "kinema/config/buckets.h"
#include "kinema/config/datasets.h"
#include "kinema/config/part_files.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/tensor_file.h"
#include "kinema/media/media_name.h"
#include "kinema/mesh/batch.h"
#include "kinema/mesh/rules.h"
#include "kinema/model_source/model_options.h"
#include "kinema/resolve/compiler_flags.h"
#include "kinema/resolve/objective.h"
#include "kinema/resolve/shared_settings.h"
#include "kinema/resolve/stored_paths.h"
#include "kinema/schedulers/samplers.h"
#include "kinema/stores/local_copies.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

/// The path of a configuration; shipped ones are in the installed program's share/kinema.
std::string configuration_file(const std::string& path) {
  std::error_code error;
  const fs::path shipped = program_folder() / "../share/kinema" / path;
  const bool use_shipped = fs::path(path).is_relative() && !fs::exists(path, error) &&
                           fs::is_regular_file(shipped, error);
  return use_shipped ? shipped.lexically_normal().string() : path;
}

bool exists(const std::string& path) {
  std::error_code ignored;  // the error is reported when the file is opened
  return fs::exists(path, ignored);
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// True for a hub id `org/name`, with or without a revision, that is not a local file.
bool is_hub_id(const std::string& word) {
  return std::ranges::count(word, '/') == 1 && !word.starts_with('/') && !word.starts_with('.') &&
         !word.ends_with(".yml") && !word.ends_with(".yaml") && !may_hold_settings(word) &&
         !exists(word);
}

bool is_weights_name(const std::string& word) {
  return word.ends_with(".safetensors") || word.ends_with(".gguf") || io::is_pickle_name(word);
}

/// True for a weights file, which may contain a whole pipeline.
bool is_weights(const std::string& word) {
  std::error_code ignored;
  return is_weights_name(word) && fs::is_regular_file(word, ignored);
}

bool is_key(const std::string& word) { return word.find('=') != std::string::npos; }

/// Says that the keys of a copied run's config.yml still name the run that it was copied from.
void notice_copied_run(const std::string& file, const config::Loaded& loaded, const Job& job) {
  const fs::path folder = fs::absolute(file).parent_path();
  const config::RunConfig& config = loaded.config.run;
  std::error_code ignored;
  if (config.run_name.empty() || on_command_line(loaded, "run_name") ||
      on_command_line(loaded, "output_dir") || !is_folder((folder / "checkpoints").string())) {
    return;
  }
  const fs::path run = fs::path(config.output_dir) / config.run_name;
  if (!fs::equivalent(folder, run, ignored)) {
    job.notice(
        fmt::format("{} is beside checkpoints, but its keys name the run {}\n  for the run beside "
                    "it: output_dir={} run_name={}",
                    file, run.string(), folder.parent_path().string(), folder.filename().string()));
  }
}

/// The configuration with the model that another program's picture names, if comfyui_folder has it
/// and no other is given. Throws an Error with the name if no model is given.
config::Loaded with_named_model(config::Loaded loaded, const SharedSettings& picture) {
  constexpr const char* kKey = "pretrained_model_name_or_path";
  const config::ModelConfig& model = loaded.config.model;
  const bool is_given = loaded.is_set(kKey) || loaded.is_set("run_name") ||
                        model.pretrained_model_name_or_path.empty();
  if (picture.model.empty() || is_given) {
    return loaded;
  }
  check(!model.comfyui_folder.empty(),
        "[generate] {0} was made with the model `{1}`, but no model is given\n  kinema generate "
        "MODEL {0}, or comfyui_folder=FOLDER, which is searched for it",
        picture.file.string(), picture.model);
  config::set(loaded, kKey, config::checkpoint_in(model.comfyui_folder, picture.model),
              picture.file.string());
  return loaded;
}

/// The configuration with a file's settings for keys that the command line does not give.
config::Loaded with_settings(config::Loaded loaded, const SharedSettings& video) {
  for (const std::string& word : video.words) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (!on_command_line(loaded, key)) {
      config::set(loaded, key, word.substr(equals + 1), video.file.string());
    }
  }
  return loaded;
}

}  // namespace

config::Loaded load(const std::string& file, std::span<const std::string> overrides,
                    std::span<const std::string> environment, const Job& job) {
  check(!file.ends_with(".toml"),
        "[config] {} is TOML, expected a configuration (YAML)\n  train_data_dir={} reads the data "
        "sets of kohya's and musubi's files; other keys of theirs are refused with kinema's name",
        file, file);
  config::Loaded loaded =
      file.empty()
          ? config::load_defaults(overrides, environment)
          : config::load(configuration_file(stores::local_copy(file, job)), overrides, environment);
  check_store_keys(loaded);
  if (const auto& scheduler = loaded.config.generate.scheduler; scheduler.given) {
    // Commands that make no pictures would not read it.
    (void)schedulers::sampler_from_string(scheduler.value, /*flow=*/true);
  }
  return loaded;
}

config::Loaded load_command_line(std::span<const std::string> words,
                                 std::span<const std::string> environment, const Job& job) {
  std::string file;
  std::vector<std::string> overrides;
  std::set<std::string> keys;
  for (const std::string& word : words) {
    if (is_key(word)) {
      const std::string key = word.substr(0, word.find('='));
      if (!keys.insert(key).second) {
        job.notice(fmt::format("{} is given more than once: the last value is used", key));
      }
      overrides.push_back(word);
      continue;
    }
    check(file.empty(), "[config] `{}` is not key=value, and the configuration is already `{}`",
          word, file);
    check(!is_folder(word) && !is_weights(word),
          "[config] {0} is {1}, expected a configuration (YAML)\n"
          "  give the model in addition to a configuration: pretrained_model_name_or_path={0}",
          word, is_folder(word) ? "a folder" : "a file of weights");
    check(word.find_first_of("./") != std::string::npos || exists(configuration_file(word)),
          "[config] `{0}` is neither a file nor key=value\n  to set a key: {0}=VALUE", word);
    file = word;
  }
  config::Loaded loaded = load(file, overrides, environment, job);
  if (!file.empty()) {
    notice_copied_run(file, loaded, job);
  }
  return loaded;
}

config::Loaded load_generation(std::span<const std::string> words,
                               std::span<const std::string> environment, const Job& job) {
  std::vector<std::string> own;
  std::vector<std::string> keys;  // which override the keys of a model or video
  std::vector<SharedSettings> videos;
  const bool is_searched = std::ranges::any_of(
      words, [](const std::string& word) { return word.starts_with("comfyui_folder="); });
  for (const std::string& word : words) {
    const bool is_model = is_folder(word) || is_weights(word) || is_hub_id(word) ||
                          (is_searched && is_weights_name(word));
    check(is_key(word) || !io::is_comfyui_folder(word),
          "[generate] {0} is a folder of ComfyUI's models, expected a model\n  kinema generate "
          "NAME.safetensors comfyui_folder={0} uses one of its checkpoints",
          word);
    if (!is_key(word) && is_model) {
      own.push_back("pretrained_model_name_or_path=" + word);
    } else if (!is_key(word) && (media::is_video_name(word) || media::is_image_name(word)) &&
               !may_hold_settings(word) && exists(word)) {
      const std::string about = fs::path(word).replace_extension(".json").string();
      fail(
          "[generate] {} contains no settings to generate it again\n"
          "  {}",
          word,
          exists(about) ? fmt::format("they are in {0}: kinema generate {0}", about)
                        : "kinema writes them to a .json next to each video, or into a picture");
    } else if (!is_key(word) && may_hold_settings(word)) {
      videos.push_back(read_shared_settings(word));
    } else {
      keys.push_back(word);
    }
  }
  own.insert(own.end(), keys.begin(), keys.end());
  config::Loaded loaded = load_command_line(own, environment, job);
  check(videos.size() <= 1, "[generate] settings of several files are given: {} and {}",
        videos.empty() ? "" : videos.front().file.string(),
        videos.empty() ? "" : videos.back().file.string());
  for (const SharedSettings& video : videos) {
    loaded = with_settings(std::move(loaded), video);
    loaded = with_named_model(std::move(loaded), video);
  }
  for (const SharedSettings& video : videos) {
    job.notice(check_given(video, loaded));
  }
  return loaded;
}

void check_values(const config::Loaded& loaded) {
  const config::Config& config = loaded.config;
  model_source::check_model_values(config);
  for (const auto& [rules, key] :
       {std::pair{&config.parallel.logical_axis_rules, "logical_axis_rules"},
        std::pair{&config.parallel.vae_logical_axis_rules, "vae_logical_axis_rules"}}) {
    mesh::AxisRules::parse(*rules, key);
  }
  mesh::sample_rules(config.parallel.data_sharding);
  config::read_buckets(config.data);
  config::read_datasets(config.data);
  timestep_bias(config.optimizer.timestep_bias);
  resolve_flags(loaded, {});
}

bool wins_over_files(const config::Loaded& loaded, const std::string& key) {
  const auto found = loaded.origin.find(key);
  return found != loaded.origin.end() &&
         (found->second == config::kCommandLine || may_hold_settings(found->second));
}

}  // namespace kinema::resolve
