#include "kinema/planning/tile_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/kernels/block_sizes.h"
#include "kinema/kernels/tpu/flash.h"

namespace kinema::planning {
namespace {

using kernels::AttentionCall;
using kernels::FlashBlockSizes;
using kernels::FlashPass;
using kernels::TileCandidate;

/// Two FLOPs per multiply-add of the products, for unpadded lengths.
double flops(const AttentionCall& call, FlashPass pass) {
  const double products = pass == FlashPass::FORWARD        ? 2
                          : pass == FlashPass::BACKWARD_DKV ? 4
                          : pass == FlashPass::BACKWARD_DQ  ? 3
                                                            : 5;
  return 2 * products * static_cast<double>(call.heads()) * static_cast<double>(call.queries()) *
         static_cast<double>(call.keys()) * static_cast<double>(call.width());
}

bool faster(const TileTiming& a, const TileTiming& b) {
  if (a.refused.empty() != b.refused.empty()) {
    return a.refused.empty();
  }
  return a.seconds < b.seconds;
}

bool same_tiles(const TileCandidate& a, const TileCandidate& b) {
  return a.work.block_q == b.work.block_q && a.work.block_kv == b.work.block_kv &&
         a.work.block_kv_compute == b.work.block_kv_compute &&
         a.work.heads_per_tile == b.work.heads_per_tile;
}

TileTable search(const AttentionCall& call, FlashPass pass, std::string_view chip, bool all,
                 const TimeTiles& try_one) {
  TileTable table{.call = call, .pass = pass};
  AttentionCall from = call;
  bool better = true;
  while (better) {
    better = false;
    for (TileCandidate& trial : kernels::tile_candidates(from, pass, chip, all)) {
      if (std::ranges::none_of(
              table.tried, [&](const TileTiming& each) { return same_tiles(each.trial, trial); })) {
        table.tried.push_back(try_one(call, std::move(trial)));
      }
    }
    std::ranges::stable_sort(table.tried, faster);
    const TileTiming& best = table.tried.front();
    if (!all && best.refused.empty() && !(best.trial.sizes == from.blocks)) {
      from.blocks = best.trial.sizes;
      better = true;
    }
  }
  return table;
}

/// The call with the most FLOPs; null if there is none of this direction.
const AttentionCall* largest(std::span<const AttentionCall> calls, bool backward) {
  const AttentionCall* out = nullptr;
  for (const AttentionCall& call : calls) {
    if (call.backward == backward &&
        (out == nullptr || flops(call, FlashPass::FORWARD) > flops(*out, FlashPass::FORWARD))) {
      out = &call;
    }
  }
  return out;
}

}  // namespace

TileTiming time_tiles(const AttentionCall& call, TileCandidate trial,
                      const KernelCompiler& compiler) {
  TileTiming out{.trial = std::move(trial)};
  try {
    const Chip& chip = compiler.target.chip;
    const KernelCycles cycles = kernel_cycles(out.trial, compiler);
    out.seconds = cycles.cycles / chip.clock;
    out.peak_share = flops(call, out.trial.pass) / (out.seconds * chip.flops);
    out.compile_seconds = cycles.compile_seconds;
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    const std::string said = error.what();
    out.refused = said.substr(0, said.find('\n'));
  }
  return out;
}

std::vector<TileTable> search_tiles(std::span<const AttentionCall> calls, std::string_view chip,
                                    bool all, const TimeTiles& try_one) {
  std::vector<TileTable> out;
  for (const bool backward : {false, true}) {
    if (const AttentionCall* call = largest(calls, backward)) {
      for (const FlashPass pass : kernels::flash_passes(*call)) {
        out.push_back(search(*call, pass, chip, all, try_one));
      }
    }
  }
  return out;
}

std::vector<TileTable> search_tiles(std::span<const AttentionCall> calls,
                                    const KernelCompiler& compiler, bool all,
                                    const std::function<void(const TileTiming&)>& done) {
  const Chip& chip = compiler.target.chip;
  check(chip.family == Family::TPU, "[plan] tile search needs a TPU target, not {}",
        compiler.target.name);
  check(
      chip.name != "v4",
      "[plan] the compiler reports no kernel cycles for v4: search on v5p, which has equal cores");
  return search_tiles(calls, chip.kind, all, [&](const AttentionCall& call, TileCandidate trial) {
    TileTiming tried = time_tiles(call, std::move(trial), compiler);
    if (done) {
      done(tried);
    }
    return tried;
  });
}

FlashBlockSizes best_sizes(std::span<const TileTable> tables) {
  FlashBlockSizes out;
  for (const TileTable& table : tables) {
    if (table.tried.empty() || !table.tried.front().refused.empty()) {
      continue;
    }
    const FlashPass pass = table.pass;
    const FlashBlockSizes& best = table.tried.front().trial.sizes;
    if (pass == FlashPass::FORWARD) {
      out.block_q = best.block_q;
      out.block_kv = best.block_kv;
      out.block_kv_compute = best.block_kv_compute;
    } else if (pass == FlashPass::BACKWARD_DQ) {
      out.block_q_dq = best.block_q_dq;
      out.block_kv_dq = best.block_kv_dq;
    } else {
      out.block_q_dkv = best.block_q_dkv;
      out.block_kv_dkv = best.block_kv_dkv;
      out.block_kv_dkv_compute = best.block_kv_dkv_compute;
      out.use_fused_bwd_kernel = best.use_fused_bwd_kernel;
    }
    out.asked = true;
    out.heads_per_tile = best.heads_per_tile;
    out.vmem_limit_bytes = best.vmem_limit_bytes;
  }
  return out;
}

std::string to_text(std::span<const TileTable> tables) {
  constexpr double kMilli = 1e3;
  constexpr double kPercent = 100;
  std::string out;
  for (const TileTable& table : tables) {
    const AttentionCall& call = table.call;
    fmt::format_to(std::back_inserter(out), "{}: {} heads of {}, {} queries x {} keys, {}\n",
                   kernels::name_of(table.pass), call.heads(), call.width(), call.queries(),
                   call.keys(), to_string(call.q.dtype));
    fmt::format_to(std::back_inserter(out), "  {:>8} {:>8} {:>10}   {:>9}  {:>7}  {:>9}\n",
                   "block_q", "block_kv", "at a time", "ms", "of peak", "compile s");
    for (const TileTiming& each : table.tried) {
      const kernels::FlashWork& work = each.trial.work;
      fmt::format_to(std::back_inserter(out), "  {:>8} {:>8} {:>10}   ", work.block_q,
                     work.block_kv, work.block_kv_compute);
      if (each.refused.empty()) {
        fmt::format_to(std::back_inserter(out), "{:>9.3f}  {:>5.1f} %  {:>9.1f}\n",
                       each.seconds * kMilli, each.peak_share * kPercent, each.compile_seconds);
      } else {
        fmt::format_to(std::back_inserter(out), "refused: {}\n", each.refused);
      }
    }
  }
  return out +
         fmt::format("best: flash_block_sizes='{}'\n", kernels::to_string(best_sizes(tables)));
}

io::Json to_json(std::span<const TileTable> tables) {
  io::Json list = io::Json::array({});
  for (const TileTable& table : tables) {
    io::Json rows = io::Json::array({});
    for (const TileTiming& each : table.tried) {
      rows.append(io::Json::object()
                      .set("block_q", each.trial.work.block_q)
                      .set("block_kv", each.trial.work.block_kv)
                      .set("block_kv_compute", each.trial.work.block_kv_compute)
                      .set("heads_per_tile", each.trial.work.heads_per_tile)
                      .set("seconds", each.seconds)
                      .set("peak_share", each.peak_share)
                      .set("compile_seconds", each.compile_seconds)
                      .set("refused", each.refused));
    }
    list.append(io::Json::object()
                    .set("kernel", std::string(kernels::name_of(table.pass)))
                    .set("heads", table.call.heads())
                    .set("queries", table.call.queries())
                    .set("keys", table.call.keys())
                    .set("width", table.call.width())
                    .set("dtype", to_string(table.call.q.dtype))
                    .set("tiles", std::move(rows)));
  }
  return io::Json::object()
      .set("kernels", std::move(list))
      .set("best", kernels::to_string(best_sizes(tables)));
}

}  // namespace kinema::planning
