#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/kernels/attention_call.h"
#include "kinema/kernels/tpu/flash.h"
#include "kinema/kernels/tpu/tiles.h"

/// Alternative tiles of an attention kernel, each as a program of its own, for tile search
/// (planning/tile_search.h).
namespace kinema::kernels {

/// The kernels of a call, in the order in which they run.
std::vector<FlashPass> flash_passes(const AttentionCall& call);

/// `flash_forward`, `flash_backward_dkv`, ...
std::string_view name_of(FlashPass pass);

struct TileCandidate {
  FlashPass pass = FlashPass::FORWARD;
  FlashBlockSizes sizes;
  FlashWork work;  // with these sizes, within the chip's limits

  /// Blocks along the two grid axes that are not heads; results are accumulated along the inner
  /// one.
  int64_t outer() const;
  int64_t inner() const;
};

/// The call's own tiles first, then distinct others: each size doubled and halved, or, if `all`,
/// every combination of the usual sizes.
std::vector<TileCandidate> tile_candidates(const AttentionCall& call, FlashPass pass,
                                           std::string_view chip, bool all);

/// A program with only the candidate's kernel, for this number of heads and blocks.
std::string tile_program(const TileCandidate& trial, std::string_view chip, int64_t heads,
                         int64_t outer, int64_t inner);

}  // namespace kinema::kernels
