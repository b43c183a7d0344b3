#pragma once

#include <memory>
#include <vector>

#include "kinema/graph/emit.h"
#include "kinema/kernels/kernel_text.h"

namespace kinema::kernels {

/// Lowers as `lowering` (which may be empty), and adds the text of each resulting kernel to
/// `texts`, once.
Lowering collecting(Lowering lowering, std::shared_ptr<std::vector<KernelText>> texts);

}  // namespace kinema::kernels
