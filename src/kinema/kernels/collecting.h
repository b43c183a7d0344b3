#pragma once

#include <memory>
#include <vector>

#include "kinema/graph/emit.h"
#include "kinema/kernels/kernel_text.h"

namespace kinema::kernels {

/// Does what `lowering` (which may be empty) does, and puts the text of each kernel that comes of
/// it into `texts`, once.
Lowering collecting(Lowering lowering, std::shared_ptr<std::vector<KernelText>> texts);

}  // namespace kinema::kernels
