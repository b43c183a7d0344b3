#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kinema/graph/emit.h"
#include "kinema/kernels/attention_call.h"

namespace kinema::kernels {

/// A call with the kernel that it gets.
struct AttentionUse {
  AttentionCall call;
  std::string kernel;  // "cuDNN", "Triton", "Mosaic", "CPU" or "blockwise"
  bool operator==(const AttentionUse&) const = default;
};
/// The calls of a program, each once.
using AttentionRecord = std::vector<AttentionUse>;

/// The calls alone.
std::vector<AttentionCall> calls_of(const AttentionRecord& record);

/// Does what `lowering` (which may be empty) does, and writes down what came of attention.
Lowering recorded(Lowering lowering, std::shared_ptr<AttentionRecord> record);

}  // namespace kinema::kernels
