#include "kinema/model_source/controlnets.h"

#include <fmt/format.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/networks/controlled.h"
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
fs::path locate_controlnet(const std::string& name, const std::string& revision, const Job& job) {
  const fs::path path = stores::local_model(name, revision, {}, job);
  std::error_code ignored;
  check(fs::exists(path, ignored), "[generate] controlnet {} does not exist", name);
  weights::check_role(path, {weights::Role::CONTROL}, "controlnet");
  return path;
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
  if (names.empty()) {
    return {};
  }
  const auto pictures = std::ssize(without_empty(g.control_image));
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
    const fs::path path = locate_controlnet(name, loaded.config.model.revision, job);
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

}  // namespace kinema::model_source
