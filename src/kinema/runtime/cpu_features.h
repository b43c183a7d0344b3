#pragma once

#include <string>

namespace kinema::runtime {

/// `model name` of the first core, or empty.
std::string cpu_model();

/// Model and instruction set of the first core as listed by the kernel: programs compiled for one
/// CPU may not run on another.
std::string cpu_features();

}  // namespace kinema::runtime
