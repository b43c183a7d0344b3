#pragma once

#include <optional>
#include <string_view>

#include "kinema/kernels/kernel_cost.h"

namespace kinema::kernels {

/// Of a `tpu_custom_call` by its configuration, as the optimized program has it; nothing for a
/// kernel that is not ours. `chip` is the name that plans have for it (v5p, v6e, tpu7x, ...).
std::optional<KernelCost> tpu_kernel_cost(std::string_view configuration, std::string_view chip);

}  // namespace kinema::kernels
