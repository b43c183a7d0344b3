#pragma once

#include <string>

namespace kinema::kernels {

/// What a call of a kernel comes to on one device.
struct KernelCost {
  std::string name;  // "flash forward (Mosaic)"
  double flops = 0;
  /// Between device memory and the chip: an operand's block is copied whenever a step works on
  /// another one than the step before.
  double hbm_bytes = 0;
  /// Share of the chip's published peak that the kernel reaches.
  double peak_share = 1;
  /// Where the share is from, if nobody published it for this chip.
  std::string note = {};
};

}  // namespace kinema::kernels
