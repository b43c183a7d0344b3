#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kinema/kernels/settings.h"

namespace kinema::nn {

/// What may ask something of block sizes: blocks written in StableHLO take any, the kernels of TPUs
/// only some.
enum class BlockRules {
  ANY,
  TPU_FORWARD,   // nothing is differentiated
  TPU_TRAINING,  // the backward kernels read block sizes too
};

/// Sizes that are in use for Wan on one TPU generation, for attention of a video's tokens.
struct KnownBlockSizes {
  std::string_view generation;  // as in plan targets: v5p, v6e, tpu7x
  BlockRules use;               // TPU_FORWARD or TPU_TRAINING
  kernels::FlashBlockSizes sizes;
  std::string_view note;
};
std::span<const KnownBlockSizes> known_block_sizes();
/// Those of one generation and use; nothing where none are known.
std::optional<kernels::FlashBlockSizes> block_sizes_for(std::string_view generation,
                                                        BlockRules use);

/// The sizes nearest to these that fit the rules for any length.
kernels::FlashBlockSizes fitting_block_sizes(const kernels::FlashBlockSizes& sizes,
                                             BlockRules rules);

/// Throws an Error that names the size, the rule and sizes that fit. `queries` and `keys` are how
/// many of each one device works on at a time.
///
/// ANY: sizes are from 1 to 2^20. TPU: blocks of keys are multiples of 128, of queries of 16; what
/// is computed at a time divides the block. Lengths are filled up to a multiple of the largest
/// block, which every other one must divide. Backward, blocks of queries are multiples of 128 too.
void check_block_sizes(const kernels::FlashBlockSizes& sizes, BlockRules rules, int64_t queries,
                       int64_t keys);

/// `block_q: 512, block_kv: 512, ...`, all keys of a configuration.
std::string to_string(const kernels::FlashBlockSizes& sizes);

}  // namespace kinema::nn
