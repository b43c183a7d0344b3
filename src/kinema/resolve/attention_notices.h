#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/config.h"

namespace kinema::resolve {

/// One log line for each attention setting that is replaced: a kernel's name by its attention kind,
/// head widths that a TPU's kernels do not support, and block sizes by the nearest valid ones.
/// `chip`: the name that the plugin or the vendor gives; empty if it is not a TPU.
std::vector<std::string> attention_notices(const config::Config& config, std::string_view chip);

}  // namespace kinema::resolve
