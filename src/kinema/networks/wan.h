#pragma once

#include <optional>
#include <string_view>

#include "kinema/io/json.h"
#include "kinema/networks/network.h"
#include "kinema/weights/checkpoint.h"

/// Wan 2.1 and 2.2 (models/wan), behind the interface of networks.
namespace kinema::networks {

/// Of a diffusers `config.json`; throws an Error naming the key that does not fit.
Network wan_from_config(const io::Json& config);

/// Of a checkpoint that is one (weights::is_transformer): the sizes of its diffusers configuration
/// where there is one, else read off the shapes, with heads of 128 as every released model has
/// them.
Network wan_from_checkpoint(const weights::Checkpoint& checkpoint);

/// The configuration of the release that a name means, e.g. `Wan-AI/Wan2.1-T2V-1.3B-Diffusers`.
std::optional<io::Json> released_wan_config(std::string_view name);

}  // namespace kinema::networks
