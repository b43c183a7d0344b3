#include "kinema/model_source/controlnets.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/networks/controlled.h"
#include "kinema/networks/open.h"
#include "kinema/sample/experts.h"
#include "kinema/stores/local_copies.h"
#include "kinema/weights/model_kind.h"

namespace kinema::model_source {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> without_empty(std::vector<std::string> names) {
  std::erase(names, "");
  return names;
}

/// The local folder or file of a ControlNet.
fs::path locate_controlnet(const std::string& name, const std::string& revision, const char* key,
                           const Job& job) {
  const fs::path path = stores::local_model(name, revision, {}, job);
  std::error_code ignored;
  const bool is_trained = std::string_view(key) == "train_controlnet";
  check(fs::exists(path, ignored), "[config] {} {} does not exist{}", key, name,
        is_trained ? "\n  train_controlnet=new begins with a copy of the UNet's encoder" : "");
  weights::check_role(path, {weights::Role::CONTROL}, key);
  return path;
}

/// Lays a ControlNet of Z-Image, which recognises the kind of its picture, over the model; returns
/// its log line.
std::string lay_over(const fs::path& path, const config::GenerateConfig& g, int64_t pictures,
                     SelectedModel& model) {
  fs::path& transformer = model.folder.transformer;
  check(!transformer.empty(),
        "[generate] {} is laid over the files of its model, which is not on this machine",
        path.string());
  const model_files::Family* family =
      model_files::find_family(model_files::Checkpoint::open(transformer));
  constexpr std::string_view kOwn = "Z-Image";
  check(
      family != nullptr && family->name == kOwn,
      "[generate] {} is a ControlNet of {}, but {} is a model of {}\n  take it with the model for "
      "which it was trained",
      path.string(), kOwn, transformer.string(),
      family == nullptr ? "another family" : family->name);
  check(pictures == 1 && std::ssize(without_empty(g.controlnet)) == 1,
        "[generate] a ControlNet of Z-Image follows one picture, but control_image has {}\n  give "
        "one controlnet and one picture",
        pictures);
  check(g.control_type.empty(),
        "[generate] control_type is for union ControlNets of Stable Diffusion: {} recognises the "
        "kind of its picture",
        path.string());
  check(!g.guess_mode,
        "[generate] guess_mode is for ControlNets of Stable Diffusion, but {} is Z-Image's",
        path.string());
  const std::string what = networks::check_control_module(model_files::Checkpoint::open(path));
  transformer = model_files::laid_over(transformer, path);
  return fmt::format("{} ({})", path.string(), what);
}

/// Throws an Error unless the union ControlNet has a kind for each picture, and others have none.
void check_types(const networks::ControlNet& network, const std::string& name,
                 const std::vector<int64_t>& given) {
  const int64_t kinds = network->types();
  check(kinds > 0 || given.empty(),
        "[generate] control_type is for union ControlNets, but {} follows one kind of picture",
        name);
  check(kinds == 0 || !given.empty(),
        "[generate] {} is a union ControlNet, which follows pictures of {} kinds\n  "
        "control_type=NUMBER says of which kind control_image is",
        name, kinds);
  for (const int64_t type : given) {
    check(type < kinds, "[generate] control_type is {}, but {} has kinds 0 to {}", type, name,
          kinds - 1);
  }
}

}  // namespace

std::vector<std::string> add_controlnets(const config::Loaded& loaded, SelectedModel& model,
                                         const Job& job) {
  const config::GenerateConfig& g = loaded.config.generate;
  const std::vector<std::string> names = without_empty(g.controlnet);
  const auto pictures = std::ssize(without_empty(g.control_image));
  if (const std::vector<sample::ControlFolder>& own = model.folder.controlnets; !own.empty()) {
    check(names.empty(),
          "[generate] {} contains a ControlNet, but controlnet names another\n  "
          "`run_name=` without a name samples the model alone",
          model.folder.folder.string());
    check(pictures == 1,
          "[generate] {} contains a ControlNet, which follows one picture\n  set "
          "control_image=FILE",
          model.folder.folder.string());
    return {own.front().path.string()};
  }
  if (names.empty()) {
    return {};
  }
  const auto count = std::ssize(names);
  check(pictures > 0,
        "[generate] controlnet is given without a picture to follow\n  set "
        "control_image=FILE");
  check(count == pictures || count == 1,
        "[generate] there are {} ControlNets and {} pictures in control_image, expected one for "
        "each",
        count, pictures);
  const auto types = std::ssize(g.control_type);
  check(types == 0 || types == 1 || types == pictures,
        "[generate] control_type has {} numbers for {} pictures, expected one for all or for each",
        types, pictures);
  std::vector<std::string> lines;
  for (int64_t i = 0; i < count; ++i) {
    const std::string& name = names[static_cast<size_t>(i)];
    const fs::path path = locate_controlnet(name, loaded.config.model.revision, "controlnet", job);
    if (model_files::is_control_module(model_files::Checkpoint::open(path))) {
      return {lay_over(path, g, pictures, model)};
    }
    const networks::ControlNet network = networks::open_control(path);
    const int64_t own = count == 1 ? pictures : 1;
    check(own == 1 || network->types() > 0,
          "[generate] {} follows one picture, but control_image has {}\n  give a controlnet for "
          "each picture",
          name, pictures);
    // Among several ControlNets, control_type is of those that have kinds.
    const bool asks = network->types() > 0 || count == 1;
    check_types(network, name, asks ? g.control_type : std::vector<int64_t>());
    sample::ControlFolder folder{.path = path, .types = {}};
    for (int64_t k = i; k < i + own; ++k) {
      folder.types.push_back(
          types == 0 || network->types() == 0 ? 0 : g.control_type[types == 1 ? 0 : k]);
    }
    lines.push_back(fmt::format("{}{}", path.string(),
                                network->types() > 0
                                    ? fmt::format(" (union, {} kinds)", network->types())
                                    : std::string()));
    model.folder.controlnets.push_back(std::move(folder));
  }
  return lines;
}

std::optional<TrainedControl> trained_control(const config::Config& config,
                                              const networks::Network& network, const Job& job) {
  const config::ModelConfig& m = config.model;
  const config::OptimizerConfig& o = config.optimizer;
  if (m.train_controlnet.empty()) {
    return std::nullopt;
  }
  for (const auto& [key, is_given] : {std::pair("enable_lora", m.enable_lora),
                                      {"trained_modules", !m.trained_modules.empty()},
                                      {"train_text_encoder", o.train_text_encoder},
                                      {"textual_inversion", !o.textual_inversion.empty()}}) {
    check(!is_given, "[config] train_controlnet trains a ControlNet alone, but {} is given too",
          key);
  }
  constexpr std::string_view kNew = "new";
  TrainedControl out;
  if (m.train_controlnet != kNew) {
    out.start = locate_controlnet(m.train_controlnet, m.revision, "train_controlnet", job);
  }
  const networks::ControlNet control =
      out.start.empty() ? networks::new_control(network) : networks::open_control(out.start);
  check(control->types() == 0,
        "[config] train_controlnet: {} is a union ControlNet, which follows pictures of {} kinds\n"
        "  ControlNets of one kind are trained",
        out.start.string(), control->types());
  out.network = networks::controlled(network, {{.network = control}}, /*is_trained=*/true);
  return out;
}

networks::Network with_trained_control(const SelectedModel& model, networks::Network network) {
  const std::vector<sample::ControlFolder>& own = model.folder.controlnets;
  return own.empty() ? network
                     : networks::controlled(network,
                                            {{.network = networks::open_control(own.front().path)}},
                                            /*is_trained=*/true);
}

networks::Network with_controlnets(const config::Loaded& loaded, networks::Network network,
                                   const Job& job) {
  SelectedModel model;
  model.folder.transformer = local_transformer(loaded.config);
  const fs::path alone = model.folder.transformer;
  add_controlnets(loaded, model, job);
  return model.folder.transformer == alone ? sample::with_controls(std::move(network), model.folder)
                                           : networks::open(model.folder.transformer);
}

}  // namespace kinema::model_source
