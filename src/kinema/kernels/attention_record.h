#pragma once

#include <map>
#include <memory>
#include <string>

#include "kinema/graph/emit.h"

namespace kinema::kernels {

/// Which kernel each call of attention in blocks gets, by what it computes:
/// "forward [1,75600,5,128] x 75600 bf16" -> "cuDNN", "Triton", "Mosaic", "CPU" or "blockwise".
using AttentionRecord = std::map<std::string, std::string>;

/// Does what `lowering` (which may be empty) does, and writes down what came of attention.
Lowering recorded(Lowering lowering, std::shared_ptr<AttentionRecord> record);

}  // namespace kinema::kernels
