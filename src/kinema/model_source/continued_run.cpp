#include "kinema/model_source/continued_run.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <system_error>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/config/keys.h"
#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/networks/open.h"
#include "kinema/training/checkpoint.h"

namespace kinema::model_source {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_checkpoint(const fs::path& path) { return is_there(path / "train_state.json"); }

/// The checkpoints folder of a run; `path` is that folder or the run's.
std::optional<fs::path> checkpoints_in(const fs::path& path) {
  if (is_there(path / "checkpoints")) {
    return path / "checkpoints";
  }
  const bool holds_some = !checkpoints::CheckpointFolder(path).steps().empty();
  return holds_some ? std::optional(path) : std::nullopt;
}

/// The configuration of a checkpoint's run, if its config.yml is in a folder above.
std::optional<config::Config> config_around(const fs::path& checkpoint) {
  const fs::path run = fs::absolute(checkpoint).lexically_normal().parent_path().parent_path();
  if (!is_there(run / "config.yml")) {
    return std::nullopt;
  }
  return config::load(run / "config.yml").config;
}

/// The model with which an adapter's run started.
std::string base_of(const fs::path& checkpoint) {
  const std::optional<config::Config> before = config_around(checkpoint);
  return before ? before->model.pretrained_model_name_or_path : "MODEL";
}

}  // namespace

fs::path checkpoint_of(const fs::path& path) {
  if (is_checkpoint(path)) {
    const std::string problem = checkpoints::manifest_problem(path);
    check(problem.empty(), "[config] the checkpoint {} cannot be used: {}", path.string(), problem);
    return path;
  }
  const std::optional<fs::path> folder = checkpoints_in(path);
  check(folder.has_value(),
        "[config] {} is neither a run's folder nor a checkpoint\n  of the run NAME they are "
        "OUTPUT_DIR/NAME and OUTPUT_DIR/NAME/checkpoints/STEP",
        path.string());
  const checkpoints::Found found = checkpoints::CheckpointFolder(*folder).newest();
  check(found.step.has_value(), "[config] the run in {} has no valid checkpoint\n  {}",
        path.string(),
        found.corrupt.empty() ? "it has none at all" : checkpoints::damage_text(found.corrupt));
  return found.folder;
}

fs::path init_checkpoint(const config::RunConfig& run) {
  const fs::path in_outputs = fs::path(run.output_dir) / run.init_from;
  check(is_there(run.init_from) || is_there(in_outputs),
        "[config] init_from `{}` is neither a folder nor a run in {}", run.init_from,
        run.output_dir);
  return checkpoint_of(is_there(run.init_from) ? fs::path(run.init_from) : in_outputs);
}

void check_same_network(const networks::Network& network, const fs::path& checkpoint) {
  const io::Json own = network->config();
  const io::Json other = networks::open(checkpoint / training::weights_part(checkpoint))->config();
  for (const auto& [key, value] : own.members()) {
    const io::Json* theirs = other.find(key);
    const std::string before = theirs == nullptr ? "none" : theirs->dump(-1);
    check(value.dump(-1) == before,
          "[train] init_from: {} is {}, but the network of {} has {}\n"
          "  the two networks must have the same sizes",
          key, value.dump(-1), checkpoint.string(), before);
  }
}

void check_same_class(const networks::Network& network, const fs::path& checkpoint) {
  constexpr const char* kClass = "_class_name";
  const fs::path config = checkpoint / training::weights_part(checkpoint) / "config.json";
  const io::Json own = network->config();
  // Adapters have no such config, and a ControlNet is not the network.
  if (!is_there(config) || own.find(kClass) == nullptr ||
      training::weights_part(checkpoint) == training::kControl) {
    return;
  }
  const io::Json other = io::Json::read(config);
  const io::Json* const before = other.find(kClass);
  check(before == nullptr || before->dump(-1) == own.at(kClass).dump(-1),
        "[train] the checkpoint {} is of a {}, but the model is a {}\n"
        "  use another run_name to train it",
        checkpoint.string(), before == nullptr ? "" : before->dump(-1), own.at(kClass).dump(-1));
}

std::vector<std::string> model_keys() {
  std::vector<std::string> out;
  for (const config::KeyValue& each : config::describe(config::Config{})) {
    if (each.field.share == config::Share::MODEL) {
      out.emplace_back(each.key);
    }
  }
  return out;
}

std::vector<std::string> other_models(const config::Config& config, const fs::path& checkpoint) {
  const std::optional<config::Config> before = config_around(checkpoint);
  std::vector<std::string> out;
  if (!before) {
    return out;
  }
  const std::vector<config::KeyValue> was = config::describe(*before);
  const std::vector<config::KeyValue> is = config::describe(config);
  for (size_t i = 0; i < is.size(); ++i) {
    if (is[i].field.share != config::Share::MODEL || is[i].value == was[i].value) {
      continue;
    }
    const std::string name = io::Json::parse(is[i].value, is[i].key).as_string();
    const std::string own = io::Json::parse(was[i].value, was[i].key).as_string();
    std::error_code ignored;
    if (!fs::equivalent(name, own, ignored)) {  // one folder may have several names
      out.push_back(
          fmt::format("this run has another model, with {} `{}`, not `{}`; use another run_name to "
                      "train that model",
                      is[i].key, own, name));
    }
  }
  return out;
}

config::Loaded with_run_as_model(config::Loaded loaded) {
  config::ModelConfig& m = loaded.config.model;
  const fs::path named = m.pretrained_model_name_or_path;
  if (named.empty() || is_there(named / "model_index.json") ||
      !(is_checkpoint(named) || is_there(named / "checkpoints"))) {
    return loaded;
  }
  const fs::path checkpoint = checkpoint_of(named);
  check(!is_there(checkpoint / training::kWords),
        "[config] {} contains words of textual inversion, which need their model\n"
        "  pretrained_model_name_or_path={} embeddings_folder={}",
        named.string(), base_of(checkpoint), (checkpoint / training::kWords).string());
  const fs::path adapter = checkpoint / training::kAdapter;
  check(!is_there(adapter),
        "[config] {} contains an adapter, which needs its model\n"
        "  pretrained_model_name_or_path={} enable_lora=true "
        "lora_config={{lora_model_name_or_path: [{}]}}",
        named.string(), base_of(checkpoint), adapter.string());
  const fs::path control = checkpoint / training::kControl;
  check(!is_there(control),
        "[config] {} contains a ControlNet, which needs its model\n"
        "  pretrained_model_name_or_path={} controlnet={} control_image=FILE",
        named.string(), base_of(checkpoint), control.string());
  if (m.wan_transformer_pretrained_model_name_or_path.empty()) {
    m.wan_transformer_pretrained_model_name_or_path = checkpoint.string();
  }
  m.pretrained_model_name_or_path.clear();
  const std::optional<config::Config> before = config_around(checkpoint);
  if (!before) {
    return loaded;  // a checkpoint alone: other models have their own keys
  }
  m.pretrained_model_name_or_path = before->model.pretrained_model_name_or_path;
  const auto inherit = [](std::string& own, const std::string& other) {
    own = own.empty() ? other : own;
  };
  inherit(m.revision, before->model.revision);
  inherit(m.wan_vae_pretrained_model_name_or_path,
          before->model.wan_vae_pretrained_model_name_or_path);
  inherit(m.wan_text_encoder_pretrained_model_name_or_path,
          before->model.wan_text_encoder_pretrained_model_name_or_path);
  return loaded;
}

}  // namespace kinema::model_source
