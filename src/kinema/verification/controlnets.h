#pragma once

#include <filesystem>
#include <vector>

#include "kinema/networks/network.h"
#include "kinema/verification/kinds.h"

namespace kinema::verification {

/// The folders of a case's UNet (`unet`) and ControlNet (`model`).
std::vector<std::filesystem::path> controlled_folders(const Case& c);

/// The UNet with the ControlNet attached.
networks::Network controlled_network(const Case& c);

}  // namespace kinema::verification
