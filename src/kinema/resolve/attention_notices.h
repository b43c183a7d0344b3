#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kinema/config/config.h"

namespace kinema::resolve {

/// What is done in place of what the configuration asks of attention, a line each: the kind that a
/// particular kernel's name stands for, heads that a TPU's kernels do not take, and block sizes,
/// with the nearest. `chip` as its plugin or maker calls it; empty for what is no TPU.
std::vector<std::string> attention_notices(const config::Config& config, std::string_view chip);

}  // namespace kinema::resolve
