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

/// One choice of tiles with what came of it.
struct TriedTiles {
  kernels::TileTrial trial;
  double seconds = 0;     // of the call, at the chip's clock; 0: refused
  double peak_share = 0;  // of the chip's published peak
  double compile_seconds = 0;
  std::string refused;  // the compiler's reason
};

/// Tiles of one kernel of a call, best first, refused ones last.
struct TileTable {
  kernels::AttentionCall call;
  kernels::FlashPass pass;
  std::vector<TriedTiles> tried;
};

/// Tries one choice of sizes for one of the call's kernels.
TriedTiles try_tiles(const kernels::AttentionCall& call, kernels::TileTrial trial,
                     const KernelCompiler& compiler);

/// Tries one choice; fills in seconds, or why it is refused.
using TryTiles = std::function<TriedTiles(const kernels::AttentionCall&, kernels::TileTrial)>;

/// Looks for the fastest tiles for the kernels of the calls with the most work, forward and
/// backward, on a chip as its plugin or maker calls it. `all`: every combination of the usual
/// sizes, else from the present ones to their neighbours until none is better.
std::vector<TileTable> search_tiles(std::span<const kernels::AttentionCall> calls,
                                    std::string_view chip, bool all, const TryTiles& try_one);

/// The same by static cycles, for a TPU that is not here; `done` is told of each that was tried.
/// Throws an Error for a chip whose compiler says none.
std::vector<TileTable> search_tiles(std::span<const kernels::AttentionCall> calls,
                                    const KernelCompiler& compiler, bool all,
                                    const std::function<void(const TriedTiles&)>& done = {});

/// The best sizes of each kernel, in one.
kernels::FlashBlockSizes best_sizes(std::span<const TileTable> tables);

/// Lines for people: a table a kernel, and `flash_block_sizes={...}` as a configuration takes it.
std::string to_text(std::span<const TileTable> tables);
io::Json to_json(std::span<const TileTable> tables);

}  // namespace kinema::planning
