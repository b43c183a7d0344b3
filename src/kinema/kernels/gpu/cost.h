#pragma once

#include <optional>
#include <string_view>

#include "kinema/kernels/kernel_cost.h"
#include "kinema/pjrt/hlo_program.h"

namespace kinema::kernels {

/// The cost of an attention call in an optimized program, cuDNN's or one of our Triton kernels;
/// empty for other calls. `chip` is its name in plans (h100, b200, ...).
std::optional<KernelCost> gpu_kernel_cost(const pjrt::HloComputation& where,
                                          const pjrt::HloInstruction& call, std::string_view chip);

}  // namespace kinema::kernels
