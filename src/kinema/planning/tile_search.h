#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/kernels/attention_call.h"
#include "kinema/planning/kernel_cycles.h"

namespace kinema::planning {

/// A choice of tiles with its result.
struct TileTiming {
  kernels::TileCandidate trial;
  double seconds = 0;     // of the call, at the chip's clock; 0: rejected
  double peak_share = 0;  // fraction of the chip's published peak
  double compile_seconds = 0;
  std::string refused;  // the compiler's reason
};

/// Tiles of one kernel of a call, best first, rejected ones last.
struct TileTable {
  kernels::AttentionCall call;
  kernels::FlashPass pass;
  std::vector<TileTiming> tried;
};

/// Measures one choice of tiles for a kernel of the call.
TileTiming time_tiles(const kernels::AttentionCall& call, kernels::TileCandidate trial,
                      const KernelCompiler& compiler);

/// Measures one choice; returns seconds, or the reason of a rejection.
using TimeTiles = std::function<TileTiming(const kernels::AttentionCall&, kernels::TileCandidate)>;

/// Searches the fastest tiles for the kernels of the largest calls, forward and backward, on a chip
/// with the plugin's or vendor's name. `all`: every combination of the usual sizes; else it moves
/// from the current ones to their neighbours until none is faster.
std::vector<TileTable> search_tiles(std::span<const kernels::AttentionCall> calls,
                                    std::string_view chip, bool all, const TimeTiles& try_one);

/// The same by static cycles, for a TPU that is not installed; `done` is called after each choice.
/// Throws an Error for a chip whose compiler does not report cycles.
std::vector<TileTable> search_tiles(std::span<const kernels::AttentionCall> calls,
                                    const KernelCompiler& compiler, bool all,
                                    const std::function<void(const TileTiming&)>& done = {});

/// The best sizes of each kernel, combined.
kernels::FlashBlockSizes best_sizes(std::span<const TileTable> tables);

/// Text for the console: one table per kernel, and `flash_block_sizes={...}` for a configuration.
std::string to_text(std::span<const TileTable> tables);
io::Json to_json(std::span<const TileTable> tables);

}  // namespace kinema::planning
