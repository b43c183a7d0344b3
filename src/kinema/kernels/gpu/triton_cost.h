#pragma once

#include <optional>
#include <string_view>

#include "kinema/kernels/kernel_cost.h"

namespace kinema::kernels {

/// Of a `__gpu$xla.gpu.triton` call by its configuration, as the optimized program has it; nothing
/// for a kernel that is not ours. `chip` is a name of plugins, makers or plans (h100, a100-80gb).
std::optional<KernelCost> triton_kernel_cost(std::string_view configuration, std::string_view chip);

}  // namespace kinema::kernels
