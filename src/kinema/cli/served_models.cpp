#include "kinema/cli/served_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "kinema/cli/commands.h"
#include "kinema/cli/observing.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/core/printable.h"
#include "kinema/http/message.h"
#include "kinema/io/yaml.h"
#include "kinema/resolve/dataset.h"
#include "kinema/resolve/load.h"
#include "kinema/resolve/shared_settings.h"
#include "kinema/serve/datasets.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;
using http::Refusal;

bool names_key(const std::string& word) { return word.find('=') != std::string::npos; }

/// The name of a model: of its file or folder, the last part of its id, or of its run.
std::string model_name(const std::vector<std::string>& words, const config::Loaded& loaded) {
  for (const std::string& word : words) {
    if (!names_key(word)) {
      const fs::path path =
          fs::path(word).has_filename() ? fs::path(word) : fs::path(word).parent_path();
      return path.extension() == ".yml" || path.extension() == ".yaml" ? path.stem().string()
                                                                       : path.filename().string();
    }
  }
  const std::string& name = loaded.config.model.pretrained_model_name_or_path;
  const std::string last = fs::path(name).filename().string();
  return !last.empty()                        ? last
         : loaded.config.run.run_name.empty() ? "model"
                                              : loaded.config.run.run_name;
}

std::string form_type(std::string_view type) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"an integer", "int"}, {"a number", "float"}, {"true or false", "bool"}, {"text", "text"}};
  for (const auto& [name, out] : kTypes) {
    if (type == name) {
      return std::string(out);
    }
  }
  return type.starts_with("a list") ? "list" : "map";
}

std::vector<std::string> choices_of(std::string_view one_of) {
  std::vector<std::string> out;
  while (!one_of.empty()) {
    const size_t bar = std::min(one_of.find(" | "), one_of.size());
    out.emplace_back(one_of.substr(0, bar));
    one_of.remove_prefix(std::min(bar + 3, one_of.size()));
  }
  return out;
}

std::optional<double> limit(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

serve::Key form_key(const config::KeyValue& key) {
  return {.key = std::string(key.key),
          .group = std::string(key.group),
          .help = std::string(key.field.help),
          .type = form_type(key.type),
          .default_value = io::Json::parse(key.value, key.key),
          .min = limit(key.field.min),
          .max = limit(key.field.max),
          .multiple_of = key.field.multiple_of,
          .one_of = choices_of(key.field.one_of),
          .prose = key.field.prose,
          .with = std::string(key.field.with)};
}

std::string value_text(const io::Json& value) {
  return value.is_string() ? value.as_string() : value.dump(-1);
}

/// Bytes of all weights below a folder, or of a file; 0 if there is none.
int64_t weights_bytes(const fs::path& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    return static_cast<int64_t>(fs::file_size(path, error));
  }
  int64_t out = 0;
  if (fs::is_directory(path, error)) {
    for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
      const fs::path extension = entry.path().extension();
      const bool is_moment = entry.path().parent_path().filename() == "optimizer";
      if (!is_moment && (extension == ".safetensors" || extension == ".gguf")) {
        out += static_cast<int64_t>(entry.file_size(error));
      }
    }
  }
  return out;
}

std::vector<serve::Lora> list_loras(const fs::path& folder) {
  std::vector<serve::Lora> out;
  std::error_code error;
  if (folder.empty() || !fs::is_directory(folder, error)) {
    return out;
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors" && entry.is_regular_file(error)) {
      out.push_back({.name = entry.path().stem().string(),
                     .what = "LoRA file",
                     .bytes = static_cast<int64_t>(entry.file_size(error)),
                     .path = fs::absolute(entry.path())});
    }
  }
  std::ranges::sort(out, {}, &serve::Lora::name);
  return out;
}

/// Configurations that runs can start from, by name: those of the models, and all of the folder
/// configs here or of the installation.
std::map<std::string, fs::path> base_files(const std::vector<serve::Model>& models) {
  std::map<std::string, fs::path> out;
  const auto add = [&](const fs::path& file) {
    std::error_code error;
    if ((file.extension() == ".yml" || file.extension() == ".yaml") &&
        fs::is_regular_file(file, error)) {
      out.emplace(file.stem().string(), file);
    }
  };
  for (const serve::Model& model : models) {
    std::ranges::for_each(model.arguments, [&](const std::string& word) { add(word); });
  }
  for (const fs::path& folder :
       {fs::path("configs"), program_folder() / "../share/kinema/configs"}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      add(entry.path());
    }
  }
  return out;
}

fs::path base_file(ServedModels& models, const std::string& name) {
  const auto files = base_files(models.models());
  const auto found = files.find(name);
  if (found == files.end()) {
    throw Refusal(404, fmt::format("there is no configuration `{}` to start from", name), "base");
  }
  return found->second;
}

config::Loaded load_base(const fs::path& file) {
  return resolve::load(file.string(), {}, variables(), console_job());
}

/// The comment in the first line of a configuration.
std::string first_comment(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line.starts_with("# ") ? printable_line(line.substr(2)) : "";
}

/// A value of a YAML text as key=value has it.
std::string yaml_text(const io::Yaml& value) {
  if (value.kind() == io::Yaml::Kind::Scalar) {
    return value.text();
  }
  check(value.kind() == io::Yaml::Kind::Sequence,
        "[serve] {} is neither a value nor a list of values", value.where());
  std::string out = "[";
  for (const io::Yaml& item : value.items()) {
    out += (out.size() > 1 ? ", " : "") + yaml_text(item);
  }
  return out + "]";
}

}  // namespace

ServedModels::ServedModels(const std::vector<std::string>& words,
                           const std::vector<std::string>& more) {
  add(words);
  for (const std::string& other : more) {
    std::vector<std::string> arguments{other};
    std::ranges::copy_if(words, std::back_inserter(arguments), names_key);
    add(arguments);
  }
  refresh();
}

void ServedModels::add(const std::vector<std::string>& words) {
  Entry entry;
  entry.loaded = resolve::load_generation(words, variables(), console_job());
  entry.served = resolve::served_model(entry.loaded);
  const config::Config& config = entry.loaded.config;
  entry.model = {.name = model_name(words, entry.loaded),
                 .family = entry.served.family,
                 .is_video = !entry.served.makes_images,
                 .what = entry.served.family,
                 .bytes = weights_bytes(weights_of(config)),
                 .inputs = entry.served.inputs,
                 .multiple_of = entry.served.multiple_of,
                 .frames_step = entry.served.frames_step,
                 .arguments = words};
  for (const config::KeyValue& key : entry.served.keys) {
    entry.model.defaults.set(key.key, io::Json::parse(key.value, key.key));
  }
  const config::GenerateConfig& g = config.generate;
  const int64_t frames = entry.served.makes_images ? 1 : g.num_frames;
  entry.model.defaults.set("num_frames", frames);
  entry.model.sizes.push_back({.width = g.width, .height = g.height, .frames = frames});
  if (g.width != g.height) {
    entry.model.sizes.push_back({.width = g.height, .height = g.width, .frames = frames});
  }
  const std::lock_guard lock(mutex_);
  for (const Entry& other : entries_) {
    kinema::check(other.model.name != entry.model.name,
                  "[serve] two models have the name `{}`\n  rename one of their files",
                  entry.model.name);
  }
  entries_.push_back(std::move(entry));
}

std::vector<serve::Model> ServedModels::models() {
  const std::lock_guard lock(mutex_);
  std::vector<serve::Model> out;
  for (const Entry& entry : entries_) {
    out.push_back(entry.model);
  }
  return out;
}

std::vector<serve::Lora> ServedModels::loras() {
  const std::lock_guard lock(mutex_);
  return loras_;
}

void ServedModels::refresh() {
  std::vector<serve::Lora> found = list_loras(first().loaded.config.generate.lora_folder);
  const std::lock_guard lock(mutex_);
  loras_ = std::move(found);
}

const ServedModels::Entry& ServedModels::find(const std::string& name) {
  const std::string known = model(name).name;  // throws a Refusal
  const std::lock_guard lock(mutex_);
  return *std::ranges::find_if(entries_,
                               [&](const Entry& entry) { return entry.model.name == known; });
}

std::vector<serve::Key> ServedModels::keys(const std::string& model) {
  std::vector<serve::Key> out;
  for (const config::KeyValue& key : find(model).served.keys) {
    out.push_back(form_key(key));
  }
  return out;
}

void ServedModels::add_model(const std::string& source) {
  std::vector<std::string> arguments{source};
  std::ranges::copy_if(first().model.arguments, std::back_inserter(arguments), names_key);
  add(arguments);
}

config::Loaded ServedModels::with_request(const serve::MakeRequest& request) {
  const Entry& entry = find(request.model);
  config::Loaded loaded = entry.loaded;
  for (const auto& [key, value] : request.settings.members()) {
    try {
      if (!value.is_null()) {
        loaded = resolve::with_client_key(std::move(loaded), key, value_text(value));
      }
    } catch (const Error& error) {
      throw Refusal(422, error.what(), key);
    }
  }
  return loaded;
}

std::vector<std::string> ServedModels::check(const serve::MakeRequest& request) {
  const Entry& entry = find(request.model);
  const config::Loaded loaded = with_request(request);
  for (const auto& [input, id] : request.inputs) {
    if (std::ranges::find(entry.model.inputs, input) == entry.model.inputs.end()) {
      throw Refusal(422, fmt::format("the model {} takes no `{}`", entry.model.name, input), input);
    }
  }
  try {
    return resolve::check_served_request(loaded);
  } catch (const Error& error) {
    throw Refusal(422, error.what());
  }
}

serve::FoundSettings ServedModels::read_settings(const fs::path& file) {
  const resolve::SharedSettings shared = resolve::read_shared_settings(file);
  serve::FoundSettings out{.request = {.model = first().model.name}};
  config::Loaded loaded = first().loaded;
  for (const std::string& word : shared.words) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    try {
      loaded = resolve::with_client_key(std::move(loaded), key, word.substr(equals + 1));
      const std::vector<config::KeyValue> all = config::describe(loaded.config);
      const auto found = std::ranges::find(all, key, &config::KeyValue::key);
      out.request.settings.set(key, io::Json::parse(found->value, key));
    } catch (const Error& error) {
      out.left_out.push_back(fmt::format("{} was left out: {}", key, error.what()));
    }
  }
  for (const std::string& key : shared.required_keys) {
    out.left_out.push_back(key + " was left out: it names a file or model of another machine");
  }
  for (const std::string& key : shared.left_out) {
    out.left_out.push_back(key + " was left out: it is a key of the machine");
  }
  return out;
}

std::vector<serve::Base> ServedModels::bases() {
  std::vector<serve::Base> out;
  for (const auto& [name, file] : base_files(models())) {
    out.push_back({.name = name, .help = first_comment(file)});
  }
  return out;
}

std::vector<serve::Key> ServedModels::training_keys(const std::string& base) {
  std::vector<serve::Key> out;
  for (const config::KeyValue& key : config::describe(load_base(base_file(*this, base)).config)) {
    if (resolve::is_training_key_for_clients(key)) {
      out.push_back(form_key(key));
    }
  }
  return out;
}

serve::CheckedRun ServedModels::check_run(const serve::RunRequest& request) {
  const fs::path file = base_file(*this, request.base);
  const auto folders = serve::named_folders(first().loaded.config.serve.serve_datasets);
  const auto dataset = folders.find(request.dataset);
  if (!request.dataset.empty() && dataset == folders.end()) {
    throw Refusal(422, fmt::format("there is no data set `{}`", request.dataset), "dataset");
  }
  config::Loaded loaded = load_base(file);
  const auto set = [&](const std::string& key, const std::string& value) {
    try {
      loaded = resolve::with_training_key(std::move(loaded), key, value);
    } catch (const Error& error) {
      throw Refusal(422, error.what(), key);
    }
  };
  try {
    if (!request.yaml.empty()) {
      const io::Yaml keys = io::Yaml::parse(request.yaml, "yaml");
      for (const io::Yaml::Member& member : keys.members()) {
        set(member.key, yaml_text(member.value));
      }
    }
  } catch (const Error& error) {
    throw Refusal(422, error.what(), "yaml");
  }
  for (const auto& [key, value] : request.settings.members()) {
    set(key, value_text(value));
  }
  serve::CheckedRun out;
  try {
    out.notices = config::notices(loaded, "train");
  } catch (const Error& error) {
    throw Refusal(422, error.what());
  }
  out.config = fmt::format("base: {}\n", io::Json(fs::absolute(file).string()).dump());
  for (const config::KeyValue& key : config::describe(loaded.config)) {
    const auto origin = loaded.origin.find(std::string(key.key));
    if (origin != loaded.origin.end() && origin->second == resolve::kClient) {
      out.config += fmt::format("{}: {}\n", key.key, key.value);
    }
  }
  if (dataset != folders.end()) {
    const resolve::Settings with = resolve::with_clips(loaded, dataset->second.string());
    for (const config::KeyValue& key : config::describe(static_cast<const config::Config&>(with))) {
      if (key.key == "train_data_dir" || key.key == "datasets" || key.key == "dataset_type") {
        out.config += fmt::format("{}: {}\n", key.key, key.value);
      }
    }
  }
  return out;
}

}  // namespace kinema::cli
