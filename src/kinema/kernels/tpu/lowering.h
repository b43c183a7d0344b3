#pragma once

#include <optional>
#include <string>

#include "kinema/graph/emit.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/kernels/tpu/flash.h"

namespace kinema::kernels {

struct TpuLoweringOptions {
  /// As plugins or their makers call it.
  std::string chip;
  /// The program has more than one device: kernels stand inside manual regions only.
  bool mesh = false;
  /// What forward kernels take off scores; without, what is best on the chip.
  std::optional<FlashMaximum> maximum = {};
};

/// Takes over `fused` attention of BF16 and F32 with widths up to 256.
Lowering tpu_lowering(const TpuLoweringOptions& options);

KernelSet tpu_kernel_set(const Target& target, const KernelOptions& options);

}  // namespace kinema::kernels
