// Of the models of `kinema serve`: their files, and devices that plans are made for.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <functional>
#include <set>

#include "kinema/cli/served_models.h"
#include "kinema/core/error.h"
#include "kinema/http/message.h"
#include "kinema/inspection/contents.h"
#include "kinema/planning/target.h"
#include "kinema/remote/hub.h"
#include "kinema/runtime/client.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

bool is_weights(const fs::path& file) {
  return file.extension() == ".safetensors" || file.extension() == ".gguf";
}

std::string kind_of(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("text_encoder") || name.starts_with("image_encoder") ? "text encoder"
         : name.starts_with("vae")                                             ? "autoencoder"
                                                                               : "model";
}

/// What a file or the folder of a model is, as `kinema inspect` says.
serve::DiskFile describe(const fs::path& path, const std::string& kind) {
  serve::DiskFile out{
      .name = path.filename().string(), .folder = path.parent_path(), .kind = kind, .what = kind};
  std::error_code error;
  const auto add = [&](const fs::path& file) {
    out.bytes += static_cast<int64_t>(fs::file_size(file, error));
    const auto time = std::chrono::file_clock::to_sys(fs::last_write_time(file, error));
    out.changed = std::max(
        out.changed, error ? 0 : std::chrono::duration<double>(time.time_since_epoch()).count());
  };
  if (fs::is_regular_file(path, error)) {
    add(path);
  }
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (is_weights(entry.path())) {
      add(entry.path());
    }
  }
  try {
    const inspection::Contents contents = inspection::contents(path);
    out.what = contents.summary;
    out.problem = contents.problem;
  } catch (const Error& problem) {
    out.problem = problem.what();
  }
  return out;
}

/// The file, or the folders of a pipeline that hold weights.
void add_model_files(const fs::path& model, std::set<fs::path>& known,
                     std::vector<serve::DiskFile>& out) {
  std::error_code error;
  const auto add = [&](const fs::path& path) {
    if (known.insert(path).second) {
      out.push_back(describe(path, kind_of(path)));
    }
  };
  if (fs::is_regular_file(model, error)) {
    return add(model);
  }
  std::vector<fs::path> inside;
  for (const auto& entry : fs::directory_iterator(model, error)) {
    inside.push_back(entry.path());
  }
  std::ranges::sort(inside);
  if (std::ranges::any_of(inside, is_weights)) {
    return add(model);
  }
  for (const fs::path& folder : inside) {
    if (folder.filename() == "optimizer") {  // of a run's checkpoint
      continue;
    }
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      if (is_weights(entry.path())) {
        add(folder);
        break;
      }
    }
  }
}

/// The entry of a folder with the highest `number` of its path; an empty path if none has one.
fs::path newest_of(const fs::path& folder, const std::function<int64_t(const fs::path&)>& number) {
  fs::path out;
  int64_t highest = -1;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (const int64_t found = number(entry.path()); found > highest) {
      highest = found;
      out = entry.path();
    }
  }
  return out;
}

int64_t step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const bool is_number =
      !name.empty() && name.size() < 18 &&
      std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
  return is_number ? std::stoll(name) : -1;
}

int64_t time_of(const fs::path& folder) {
  std::error_code error;
  return fs::last_write_time(folder, error).time_since_epoch().count();
}

}  // namespace

fs::path weights_of(const config::Config& config) {
  const std::string& name = config.model.pretrained_model_name_or_path;
  std::error_code error;
  if (name.empty()) {
    const fs::path run = fs::path(config.run.output_dir) / config.run.run_name;
    return newest_of(run / "checkpoints", step_of);
  }
  if (const auto id = remote::read_hub_id(name); id && !fs::exists(name, error)) {
    std::string repo = id->repo;
    repo.replace(repo.find('/'), 1, "--");
    return newest_of(
        remote::HubOptions::from_environment().cache / ("models--" + repo) / "snapshots", time_of);
  }
  return name;
}

std::vector<serve::DiskFile> ServedModels::disk() {
  std::vector<serve::DiskFile> out;
  std::set<fs::path> known;
  for (const serve::Model& model : models()) {
    add_model_files(weights_of(find(model.name).loaded.config), known, out);
  }
  for (const serve::Lora& lora : loras()) {
    out.push_back(describe(lora.path, "lora"));
  }
  return out;
}

std::vector<serve::PlanDevice> ServedModels::devices() {
  using planning::Family;
  const bool has_cuda = !runtime::installed_plugin("cuda").empty();
  const bool has_tpu = !runtime::installed_plugin("tpu").empty();
  std::vector<serve::PlanDevice> out;
  for (const planning::Chip& chip : planning::chips()) {
    const bool has_compiler =
        chip.family == Family::CPU || (chip.family == Family::TPU ? has_tpu : has_cuda);
    const auto add = [&](const std::string& size, int64_t devices) {
      out.push_back({.name = chip.name + size,
                     .what = fmt::format("{} {}{}", devices, chip.kind, devices > 1 ? "s" : ""),
                     .bytes = static_cast<int64_t>(chip.memory_bytes),
                     .has_compiler = has_compiler});
    };
    if (chip.family == Family::TPU) {
      const std::string flat = chip.grid_axes == 3 ? "x1" : "";
      add(":1x1" + flat, chip.devices_per_chip);
      add(":2x2" + flat, 4 * chip.devices_per_chip);
    } else {
      add("", 1);
      if (chip.family == Family::CUDA) {
        add(":8", 8);
      }
    }
  }
  return out;
}

void ServedModels::check_device(const std::string& device) {
  try {
    (void)planning::parse_target(device);
  } catch (const Error& error) {
    throw http::Refusal(422, error.what(), "device");
  }
}

std::string ServedModels::plan_config(const serve::MakeRequest& request) {
  const config::Loaded loaded = with_request(request);
  std::string out;
  for (const config::KeyValue& key : config::describe(loaded.config)) {
    if (loaded.is_set(std::string(key.key)) && key.field.of == config::Of::RUN) {
      out += fmt::format("{}: {}\n", key.key, key.value);
    }
  }
  return out;
}

}  // namespace kinema::cli
