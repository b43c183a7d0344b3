#pragma once

#include <optional>
#include <string_view>

#include "kinema/kernels/kernel_cost.h"

namespace kinema::kernels {

/// The cost of a `__gpu$xla.gpu.triton` call from its configuration in the optimized program; empty
/// for a kernel that is not ours. `chip` is a name from plugins, makers or plans (h100, a100-80gb).
std::optional<KernelCost> triton_kernel_cost(std::string_view configuration, std::string_view chip);

}  // namespace kinema::kernels
