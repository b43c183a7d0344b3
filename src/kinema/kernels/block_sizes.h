#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kinema/kernels/settings.h"

namespace kinema::kernels {

/// A size under its name in configurations.
struct NamedBlockSize {
  std::string_view name;
  int64_t FlashBlockSizes::*size;
};
/// The eight sizes of blocks, in their order in configurations.
std::span<const NamedBlockSize> block_size_names();

/// Throws an Error that names the size unless all are from 1 to 2^20: blocks can be any, kernels
/// take what is nearest (tpu/tiles.h).
void check_block_sizes(const FlashBlockSizes& sizes);

/// `{block_q: 512, block_kv: 512, ...}`, as a configuration takes it.
std::string to_string(const FlashBlockSizes& sizes);

}  // namespace kinema::kernels
