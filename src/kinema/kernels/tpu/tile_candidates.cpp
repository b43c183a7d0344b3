#include "kinema/kernels/tpu/tile_candidates.h"

#include <algorithm>
#include <array>

#include "kinema/core/error.h"
#include "kinema/graph/emit.h"
#include "kinema/kernels/tpu/flash_calls.h"

namespace kinema::kernels {
namespace {

using Size = int64_t FlashBlockSizes::*;

/// The block sizes that a pass uses: queries, keys, keys at a time.
std::array<Size, 3> sizes_of(FlashPass pass) {
  switch (pass) {
    case FlashPass::FORWARD:
      return {&FlashBlockSizes::block_q, &FlashBlockSizes::block_kv,
              &FlashBlockSizes::block_kv_compute};
    case FlashPass::BACKWARD_DKV:
    case FlashPass::BACKWARD_FUSED:
      return {&FlashBlockSizes::block_q_dkv, &FlashBlockSizes::block_kv_dkv,
              &FlashBlockSizes::block_kv_dkv_compute};
    case FlashPass::BACKWARD_DQ:
      return {&FlashBlockSizes::block_q_dq, &FlashBlockSizes::block_kv_dq,
              &FlashBlockSizes::block_kv_dkv_compute};
  }
  fail("[kernels] unknown pass {}", static_cast<int>(pass));
}

constexpr std::array<int64_t, 5> kQueries = {256, 512, 1024, 2048, 3072};
constexpr std::array<int64_t, 4> kKeys = {512, 1024, 2048, 4096};
constexpr std::array<int64_t, 3> kAtATime = {128, 256, 512};

std::vector<FlashBlockSizes> combinations(const FlashBlockSizes& own, FlashPass pass) {
  const auto [q, kv, compute] = sizes_of(pass);
  std::vector<FlashBlockSizes> out;
  for (const int64_t queries : kQueries) {
    for (const int64_t keys : kKeys) {
      for (const int64_t at_a_time : kAtATime) {
        FlashBlockSizes sizes = own;
        sizes.*q = queries;
        sizes.*kv = keys;
        sizes.*compute = at_a_time;
        out.push_back(sizes);
      }
    }
  }
  return out;
}

std::vector<FlashBlockSizes> neighbours(const FlashBlockSizes& own, FlashPass pass) {
  std::vector<FlashBlockSizes> out;
  for (const Size size : sizes_of(pass)) {
    for (const bool up : {false, true}) {
      FlashBlockSizes sizes = own;
      sizes.*size = up ? own.*size * 2 : own.*size / 2;
      out.push_back(sizes);
    }
  }
  return out;
}

bool same_tiles(const FlashWork& a, const FlashWork& b) {
  return a.block_q == b.block_q && a.block_kv == b.block_kv &&
         a.block_kv_compute == b.block_kv_compute && a.heads_per_tile == b.heads_per_tile;
}

bool by_keys(FlashPass pass) {
  return pass == FlashPass::BACKWARD_DKV || pass == FlashPass::BACKWARD_FUSED;
}

FlashKernel kernel_of(const FlashWork& work, FlashPass pass) {
  switch (pass) {
    case FlashPass::FORWARD:
      return flash_forward(work);
    case FlashPass::BACKWARD_DKV:
    case FlashPass::BACKWARD_FUSED:
      return flash_backward_dkv(work, pass == FlashPass::BACKWARD_FUSED);
    case FlashPass::BACKWARD_DQ:
      return flash_backward_dq(work);
  }
  fail("[kernels] unknown pass {}", static_cast<int>(pass));
}

}  // namespace

std::vector<FlashPass> flash_passes(const AttentionCall& call) {
  if (!call.backward) {
    return {FlashPass::FORWARD};
  }
  return call.blocks.use_fused_bwd_kernel
             ? std::vector{FlashPass::BACKWARD_FUSED}
             : std::vector{FlashPass::BACKWARD_DKV, FlashPass::BACKWARD_DQ};
}

std::string_view name_of(FlashPass pass) {
  switch (pass) {
    case FlashPass::FORWARD:
      return "flash_forward";
    case FlashPass::BACKWARD_DKV:
      return "flash_backward_dkv";
    case FlashPass::BACKWARD_FUSED:
      return "flash_backward";
    case FlashPass::BACKWARD_DQ:
      return "flash_backward_dq";
  }
  fail("[kernels] unknown pass {}", static_cast<int>(pass));
}

int64_t TileCandidate::outer() const {
  return by_keys(pass) ? work.keys / work.block_kv : work.queries / work.block_q;
}

int64_t TileCandidate::inner() const {
  return by_keys(pass) ? work.queries / work.block_q : work.keys / work.block_kv;
}

std::vector<TileCandidate> tile_candidates(const AttentionCall& call, FlashPass pass,
                                           std::string_view chip, bool all) {
  const FlashLengths lengths{call.heads(), call.queries(), call.keys(), call.width()};
  const FlashBlockSizes own = call.blocks.asked ? call.blocks : best_block_sizes(chip, call.keys());
  std::vector<FlashBlockSizes> wanted{own};
  const std::vector<FlashBlockSizes> more = all ? combinations(own, pass) : neighbours(own, pass);
  wanted.insert(wanted.end(), more.begin(), more.end());
  std::vector<TileCandidate> out;
  for (FlashBlockSizes sizes : wanted) {
    sizes.asked = true;
    TileCandidate trial{.pass = pass,
                        .sizes = sizes,
                        .work = flash_work(lengths, pass, call.q.dtype, call.result, sizes, chip)};
    if (std::ranges::none_of(
            out, [&](const TileCandidate& other) { return same_tiles(other.work, trial.work); })) {
      out.push_back(std::move(trial));
    }
  }
  return out;
}

std::string tile_program(const TileCandidate& trial, std::string_view chip, int64_t heads,
                         int64_t outer, int64_t inner) {
  FlashWork work = trial.work;
  work.heads = heads * work.heads_per_tile;
  work.queries = work.block_q * (by_keys(trial.pass) ? inner : outer);
  work.keys = work.block_kv * (by_keys(trial.pass) ? outer : inner);
  work.counted = work.keys;
  // A schedule's cycle count does not include data-dependent branches.
  work.prefetched = false;
  if (work.maximum == FlashMaximum::EITHER) {
    work.maximum = FlashMaximum::FIXED;
  }
  const FlashKernel kernel = kernel_of(work, trial.pass);
  Graph graph;
  std::vector<Tensor> operands;
  for (const Shape& shape : kernel.operands) {
    operands.push_back(graph.input(shape));
  }
  const std::vector<Tensor> results =
      call_kernel(kernel, operands, vmem_limit(work, trial.pass, trial.sizes, chip));
  return emit(graph, results);
}

}  // namespace kinema::kernels
