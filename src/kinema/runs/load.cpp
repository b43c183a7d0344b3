#include "kinema/runs/load.h"

#include <algorithm>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/runs/shared_settings.h"
#include "kinema/runs/stores.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

/// The configurations that come with an installed program lie in its share/kinema.
std::string configuration_file(const std::string& path) {
  std::error_code error;
  const fs::path shipped = program_folder() / "../share/kinema" / path;
  const bool use_shipped = fs::path(path).is_relative() && !fs::exists(path, error) &&
                           fs::is_regular_file(shipped, error);
  return use_shipped ? shipped.lexically_normal().string() : path;
}

bool exists(const std::string& path) {
  std::error_code ignored;  // then it cannot be read either, which is told where it is opened
  return fs::exists(path, ignored);
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// `org/name`, perhaps with a revision, and no file of this machine.
bool is_hub_id(const std::string& word) {
  return std::ranges::count(word, '/') == 1 && !word.starts_with('/') && !word.starts_with('.') &&
         !word.ends_with(".yml") && !word.ends_with(".yaml") && !may_hold_settings(word) &&
         !exists(word);
}

/// A file of weights, which may hold a whole pipeline.
bool is_weights(const std::string& word) {
  std::error_code ignored;
  return word.ends_with(".safetensors") && fs::is_regular_file(word, ignored);
}

bool is_key(const std::string& word) { return word.find('=') != std::string::npos; }

}  // namespace

config::Loaded load(const std::string& file, std::span<const std::string> overrides,
                    std::span<const std::string> environment, const Job& job) {
  config::Loaded loaded = file.empty() ? config::load_defaults(overrides, environment)
                                       : config::load(configuration_file(local_copy(file, job)),
                                                      overrides, environment);
  check_store_keys(loaded);
  return loaded;
}

config::Loaded load_words(std::span<const std::string> words,
                          std::span<const std::string> environment, const Job& job) {
  std::string file;
  std::vector<std::string> overrides;
  for (const std::string& word : words) {
    if (is_key(word)) {
      overrides.push_back(word);
      continue;
    }
    check(file.empty(), "[config] `{}` is neither key=value nor the configuration, which is `{}`",
          word, file);
    file = word;
  }
  return load(file, overrides, environment, job);
}

config::Loaded load_generation(std::span<const std::string> words,
                               std::span<const std::string> environment, const Job& job) {
  std::vector<std::string> first;
  std::vector<std::string> rest;
  std::vector<SharedSettings> videos;
  for (const std::string& word : words) {
    if (!is_key(word) && (is_folder(word) || is_weights(word) || is_hub_id(word))) {
      first.push_back("pretrained_model_name_or_path=" + word);
    } else if (!is_key(word) && may_hold_settings(word)) {
      const SharedSettings& video = videos.emplace_back(read_shared_settings(word));
      first.insert(first.end(), video.words.begin(), video.words.end());
    } else {
      rest.push_back(word);
    }
  }
  std::erase_if(first, [&](const std::string& word) {  // what is given anew is not read
    const std::string key = word.substr(0, word.find('=') + 1);
    return std::ranges::any_of(rest, [&](const std::string& own) { return own.starts_with(key); });
  });
  first.insert(first.end(), rest.begin(), rest.end());
  config::Loaded loaded = load_words(first, environment, job);
  for (const SharedSettings& video : videos) {
    job.notice(check_given(video, loaded));
  }
  return loaded;
}

bool on_command_line(const config::Loaded& loaded, const std::string& key) {
  const auto found = loaded.origin.find(key);
  return found != loaded.origin.end() && found->second == config::kCommandLine;
}

}  // namespace kinema::runs
