#pragma once

#include <span>

#include "kinema/graph/op.h"

namespace kinema {

/// Every primitive of src/kinema/graph/ops, for tests that cover all of them.
std::span<const Op* const> all_ops();

// One list per family, in the file that defines it.
std::span<const Op* const> leaf_ops();
std::span<const Op* const> elementwise_ops();
std::span<const Op* const> compare_ops();
std::span<const Op* const> reshape_ops();
std::span<const Op* const> slice_ops();
std::span<const Op* const> concatenate_ops();
std::span<const Op* const> gather_ops();
std::span<const Op* const> reduce_ops();
std::span<const Op* const> dot_ops();
std::span<const Op* const> convolution_ops();
std::span<const Op* const> annotate_ops();
std::span<const Op* const> composed_ops();
std::span<const Op* const> sort_ops();
std::span<const Op* const> collective_ops();

}  // namespace kinema
