#pragma once

#include <filesystem>

#include "kinema/models/wan/config_file.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/networks/open.h"

/// Wan's sizes and the networks built from them.
namespace kinema {

inline networks::Network network_of(const wan::TransformerConfig& config) {
  return networks::from_config(wan::config_json(config));
}

/// The sizes in a model folder or file.
inline wan::TransformerConfig wan_config(const std::filesystem::path& model) {
  return wan::parse_config(networks::open(model)->config());
}

}  // namespace kinema
