#pragma once

#include <optional>
#include <string_view>

#include "kinema/kernels/kernel_cost.h"

namespace kinema::kernels {

/// The cost of a `tpu_custom_call` from its configuration in the optimized program; empty for a
/// kernel that is not ours. `chip` is its name in plans (v5p, v6e, tpu7x, ...).
std::optional<KernelCost> tpu_kernel_cost(std::string_view configuration, std::string_view chip);

}  // namespace kinema::kernels
