#pragma once

#include <optional>
#include <string>

#include "kinema/graph/emit.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/kernels/tpu/flash.h"

namespace kinema::kernels {

struct TpuLoweringOptions {
  /// Name in the plugin or by its maker.
  std::string chip;
  /// The program has more than one device: kernels are only possible inside manual regions.
  bool mesh = false;
  /// What forward kernels subtract from scores; empty: the best choice for the chip.
  std::optional<FlashMaximum> maximum = {};
};

/// Replaces `fused` attention of BF16 and F32 with widths up to 256.
Lowering tpu_lowering(const TpuLoweringOptions& options);

KernelSet tpu_kernel_set(const Target& target, const KernelOptions& options);

}  // namespace kinema::kernels
