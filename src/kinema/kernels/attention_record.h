#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kinema/graph/emit.h"
#include "kinema/kernels/attention_call.h"

namespace kinema::kernels {

/// An attention call and the kernel it gets.
struct AttentionUse {
  AttentionCall call;
  std::string kernel;  // "cuDNN", "Triton", "Mosaic", "CPU" or "blockwise"
  bool operator==(const AttentionUse&) const = default;
};
/// The distinct attention calls of a program.
using AttentionRecord = std::vector<AttentionUse>;

/// The calls without their kernels.
std::vector<AttentionCall> calls_of(const AttentionRecord& record);

/// Lowers as `lowering` (which may be empty), and records which kernel each attention call gets.
Lowering recorded(Lowering lowering, std::shared_ptr<AttentionRecord> record);

}  // namespace kinema::kernels
