#pragma once

#include <string>

namespace kinema::kernels {

/// The cost of one kernel call on one device.
struct KernelCost {
  std::string name;  // "flash forward (Mosaic)"
  double flops = 0;
  /// Between device memory and the chip: an operand's block is copied whenever a grid step uses
  /// another block than the step before.
  double hbm_bytes = 0;
  /// Fraction of the chip's published peak that the kernel reaches.
  double peak_share = 1;
  /// Source of `peak_share` if there are no published measurements for this chip.
  std::string note = {};
};

}  // namespace kinema::kernels
