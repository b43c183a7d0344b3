#include "kinema/networks/open.h"

#include <algorithm>
#include <array>

#include "kinema/core/error.h"
#include "kinema/networks/families.h"
#include "kinema/weights/model_kind.h"

// Finds the model family of a configuration, a checkpoint or a name.
namespace kinema::networks {
namespace {

std::array<Maker, 6> makers() {
  return {wan_family(),  wan_vace_family(), wan_animate_family(),
          flux_family(), zimage_family(),   unet_family()};
}

/// The first family if the family is unknown: its Errors name the missing key.
Maker maker_of(const model_files::Family* family) {
  const std::array<Maker, 6> all = makers();
  const auto* const found = std::ranges::find_if(all, [&](const Maker& maker) {
    return family != nullptr && maker.class_name == family->transformer_class;
  });
  return found == all.end() ? all[0] : *found;
}

}  // namespace

Network open(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    using weights::Role;  // other models are identified by a key of config.json
    weights::check_role(path, {Role::NETWORK, Role::VAE, Role::PART});
    io::Json config = io::Json::read(path / "config.json");
    if (!model_files::is_original_config(config)) {
      return from_config(config);  // without reading the weights
    }
  }
  return open(model_files::Checkpoint::open(path));
}

Network open(const model_files::Checkpoint& checkpoint) {
  if (checkpoint.module() != nullptr) {
    return from_shapes(checkpoint);
  }
  weights::check_role(checkpoint.path(), {weights::Role::NETWORK});
  if (const io::Json& config = checkpoint.config();
      config.is_object() && !model_files::is_original_config(config)) {
    return maker_of(model_files::find_family(checkpoint)).from_config(config);
  }
  return from_shapes(checkpoint);
}

Network from_shapes(const model_files::Checkpoint& checkpoint) {
  return maker_of(model_files::find_family(checkpoint)).from_shapes(checkpoint);
}

Network from_config(const io::Json& config) {
  const model_files::Family* family = model_files::family_of_config(config);
  if (family == nullptr) {
    const io::Json& name = config.at("_class_name");
    fail("[networks] {} is `{}`, expected {}", name.where(), name.as_string(),
         model_files::transformer_classes());
  }
  return maker_of(family).from_config(config);
}

std::optional<io::Json> released_config(std::string_view name) {
  for (const Maker& maker : makers()) {
    if (std::optional<io::Json> config = maker.released_config(name)) {
      return config;
    }
  }
  return std::nullopt;
}

io::Json default_config() { return *wan_family().released_config("Wan2.1-T2V-1.3B"); }

}  // namespace kinema::networks
