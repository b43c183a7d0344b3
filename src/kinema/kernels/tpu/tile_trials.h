#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/kernels/attention_call.h"
#include "kinema/kernels/tpu/flash.h"
#include "kinema/kernels/tpu/tiles.h"

/// Other tiles that an attention kernel could work on, and each by itself as a program: for whoever
/// looks for the best (planning/tile_search.h).
namespace kinema::kernels {

/// Kernels that a call comes to, in the order in which they run.
std::vector<FlashPass> passes_of(const AttentionCall& call);

/// `flash_forward`, `flash_backward_dkv`, ...
std::string_view name_of(FlashPass pass);

struct TileTrial {
  FlashPass pass = FlashPass::FORWARD;
  FlashBlockSizes sizes;
  FlashWork work;  // on these sizes, as the chip allows them

  /// Blocks along the two axes of the grid that are not heads; results are carried along the inner.
  int64_t outer() const;
  int64_t inner() const;
};

/// The call's own tiles first, then others, no two alike: each size once doubled and once halved,
/// or, where `all`, every combination of the usual sizes.
std::vector<TileTrial> tile_trials(const AttentionCall& call, FlashPass pass, std::string_view chip,
                                   bool all);

/// A program of nothing but the trial's kernel, on so many heads and blocks.
std::string tile_program(const TileTrial& trial, std::string_view chip, int64_t heads,
                         int64_t outer, int64_t inner);

}  // namespace kinema::kernels
