#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kinema/kernels/settings.h"

namespace kinema::kernels {

/// A block size and its name in configurations.
struct NamedBlockSize {
  std::string_view name;
  int64_t FlashBlockSizes::*size;
};
/// The eight block sizes, in the order of configurations.
std::span<const NamedBlockSize> block_size_names();

/// Throws an Error that names the size unless all are from 1 to 2^20. Any such size is valid:
/// kernels use the nearest that they support (tpu/tiles.h).
void check_block_sizes(const FlashBlockSizes& sizes);

/// `{block_q: 512, block_kv: 512, ...}`, as written in a configuration.
std::string to_string(const FlashBlockSizes& sizes);

}  // namespace kinema::kernels
