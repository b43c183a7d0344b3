#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kinema::kernels {

/// What a call of one of our kernels comes to on one device.
struct KernelCost {
  std::string name;  // "flash forward (Mosaic)"
  double flops = 0;
  /// Between device memory and the chip: an operand's block is copied whenever a step works on
  /// another one than the step before.
  double hbm_bytes = 0;
  /// Share of the chip's published peak that the kernel reaches.
  double peak_share = 1;
};

/// Of a `tpu_custom_call` by its configuration, as the optimized program has it; nothing for a
/// kernel that is not ours. `chip` is the name that plans have for it (v5p, v6e, tpu7x, ...).
std::optional<KernelCost> tpu_kernel_cost(std::string_view configuration, std::string_view chip);

}  // namespace kinema::kernels
