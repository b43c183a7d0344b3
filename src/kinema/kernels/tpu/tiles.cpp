#include "kinema/kernels/tpu/tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kinema/core/error.h"

namespace kinema::kernels {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kUnit = 128;

struct ChipVmem {
  std::string_view kind;
  Vmem vmem;
};

// libtpu 0.0.51, measured: a kernel's default VMEM and the maximum it can be given.
constexpr std::array<ChipVmem, 8> kChips = {{{"TPU v4", {16 * kMiB, 16 * kMiB}},
                                             {"TPU v5 lite", {16 * kMiB, 128 * kMiB}},
                                             {"TPU v5e", {16 * kMiB, 128 * kMiB}},
                                             {"TPU v5", {16 * kMiB, 63 * kMiB}},
                                             {"TPU v5p", {16 * kMiB, 63 * kMiB}},
                                             {"TPU v6 lite", {32 * kMiB, 127 * kMiB}},
                                             {"TPU v6e", {32 * kMiB, 127 * kMiB}},
                                             {"TPU7x", {32 * kMiB, 63 * kMiB}}}};

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// The smallest block that divides a length into as few blocks as `wanted` does.
int64_t even_block(int64_t length, int64_t wanted) {
  const int64_t most = std::max(kUnit, wanted / kUnit * kUnit);
  const int64_t blocks = (length + most - 1) / most;
  return round_up((length + blocks - 1) / blocks, kUnit);
}

/// The largest multiple of 128 that divides `whole` and is at most `wanted`.
int64_t dividing(int64_t whole, int64_t wanted) {
  int64_t block = std::clamp(wanted / kUnit * kUnit, kUnit, whole);
  while (whole % block != 0) {
    block -= kUnit;
  }
  return block;
}

struct Wanted {
  int64_t queries, keys, at_a_time;
};

Wanted wanted(const FlashBlockSizes& sizes, FlashPass pass) {
  switch (pass) {
    case FlashPass::FORWARD:
      return {sizes.block_q, sizes.block_kv, sizes.block_kv_compute};
    case FlashPass::BACKWARD_DKV:
    case FlashPass::BACKWARD_FUSED:
      return {sizes.block_q_dkv, sizes.block_kv_dkv, sizes.block_kv_dkv_compute};
    case FlashPass::BACKWARD_DQ:
      return {sizes.block_q_dq, sizes.block_kv_dq, sizes.block_kv_dkv_compute};
  }
  fail("[kernels] unknown pass {}", static_cast<int>(pass));
}

/// Reserve of VMEM for what the estimate does not include.
constexpr int64_t kSpare = kMiB;

}  // namespace

Vmem vmem_limits(std::string_view chip) {
  const auto* found = std::ranges::find(kChips, chip, &ChipVmem::kind);
  return found == kChips.end() ? kChips[0].vmem : found->vmem;
}

std::string flash_refusal(int64_t width, DType dtype) {
  constexpr int64_t kWidest = 256;
  if (width > kWidest) {
    return fmt::format("the head width is {}, expected at most {}", width, kWidest);
  }
  return dtype == DType::BF16 || dtype == DType::F32
             ? ""
             : fmt::format("{} was given, expected bf16 or f32", to_string(dtype));
}

int64_t vmem_bytes(const FlashWork& work, FlashPass pass) {
  const int64_t in = byte_size(work.dtype);
  const int64_t out = byte_size(work.result);
  const int64_t q = work.block_q * work.width;
  const int64_t kv = work.block_kv * work.width;
  // A row takes as much memory as eight: memory is organised in tiles of 8 x 128.
  const int64_t row = 8 * work.block_q * 4;
  const int64_t column = work.block_q * kUnit * 4;
  // An f32 product needs three parts of each operand. With unrolled parts, one part's scores are in
  // use while the next part's are computed.
  const int64_t scores = work.block_q * work.block_kv_compute * 4;
  const int64_t temporaries = (work.dtype == DType::F32 ? 3 : 2) * scores;
  int64_t windows = 0;
  int64_t scratch = 0;
  switch (pass) {
    case FlashPass::FORWARD:
      windows = q * (in + out) + 2 * kv * in + row;
      scratch = 2 * column + q * 4 + 2 * column;  // the last two: lse, transposed
      break;
    case FlashPass::BACKWARD_DKV:
    case FlashPass::BACKWARD_FUSED:
      windows = 2 * q * in + 2 * kv * (in + out) + 2 * row;
      scratch = 2 * kv * 4;
      if (pass == FlashPass::BACKWARD_FUSED) {
        windows += q * out;
        scratch += q * 4;
      }
      break;
    case FlashPass::BACKWARD_DQ:
      windows = q * (2 * in + out) + 2 * kv * in + 2 * row;
      scratch = 2 * q * 4;  // and transposed
      break;
  }
  return work.heads_per_tile * (2 * windows + scratch) + temporaries;
}

FlashBlockSizes best_block_sizes(std::string_view chip, int64_t keys) {
  // By the compiler's estimates, 256 keys at a time keep the matrix units busiest on every chip,
  // and more queries per block of keys are better. Few keys are best processed in one step, and
  // take so little time that fast compilation matters more.
  constexpr int64_t kFewKeys = 512;
  const bool small = vmem_limits(chip).at_most <= 16 * kMiB;
  const int64_t queries = keys <= kFewKeys ? 1024 : small ? 2048 : 4736;
  constexpr int64_t kBlock = 1024;
  const int64_t at_a_time = keys <= kFewKeys ? kFewKeys : 256;
  return {.block_q = queries,
          .block_kv = kBlock,
          .block_kv_compute = at_a_time,
          .block_q_dkv = queries,
          .block_kv_dkv = kBlock,
          .block_kv_dkv_compute = at_a_time,
          .block_q_dq = queries,
          .block_kv_dq = kBlock};
}

FlashMaximum best_maximum(std::string_view chip, int64_t keys) {
  // By the compiler's schedules it saves 16 % on v6e, and 1.7 % on v5p, where the kernel is bound
  // by the matrix units. The norms read q once more, which takes as long as 700 keys save.
  constexpr int64_t kManyKeys = 4096;
  const bool pays = chip == "TPU v6 lite" || chip == "TPU v6e";
  return pays && keys >= kManyKeys ? FlashMaximum::EITHER : FlashMaximum::RUNNING;
}

FlashBlockSizes supported_block_sizes(const FlashBlockSizes& asked, int64_t heads, int64_t width,
                                      DType dtype, std::string_view chip) {
  FlashBlockSizes out = asked;
  int64_t limit = 0;
  const auto take = [&](const FlashWork& work, FlashPass pass) {
    out.heads_per_tile = std::min(out.heads_per_tile, work.heads_per_tile);
    limit = std::max(limit, vmem_limit(work, pass, asked, chip));
  };
  const auto work_of = [&](FlashPass pass) {
    // Lengths of one block, which need no even division.
    const auto whole = [](int64_t size) { return std::max(kUnit, size / kUnit * kUnit); };
    const Wanted first =
        wanted(asked, pass == FlashPass::BACKWARD_DQ ? FlashPass::BACKWARD_DKV : pass);
    const Wanted own = wanted(asked, pass);
    return flash_work({.heads = heads,
                       .queries = whole(std::max(first.queries, own.queries)),
                       .keys = whole(std::max(first.keys, own.keys)),
                       .width = width},
                      pass, dtype, dtype, asked, chip);
  };
  const FlashWork forward = work_of(FlashPass::FORWARD);
  take(forward, FlashPass::FORWARD);
  out.block_q = forward.block_q;
  out.block_kv = forward.block_kv;
  out.block_kv_compute = forward.block_kv_compute;
  const FlashPass first =
      asked.use_fused_bwd_kernel ? FlashPass::BACKWARD_FUSED : FlashPass::BACKWARD_DKV;
  const FlashWork dkv = work_of(first);
  take(dkv, first);
  out.block_q_dkv = dkv.block_q;
  out.block_kv_dkv = dkv.block_kv;
  out.block_kv_dkv_compute = dkv.block_kv_compute;
  if (!asked.use_fused_bwd_kernel) {
    const FlashWork dq = work_of(FlashPass::BACKWARD_DQ);
    take(dq, FlashPass::BACKWARD_DQ);
    out.block_q_dq = dq.block_q;
    out.block_kv_dq = dq.block_kv;
  }
  if (asked.vmem_limit_bytes > 0) {
    out.vmem_limit_bytes = limit;
  }
  return out;
}

FlashWork flash_work(const FlashLengths& lengths, FlashPass pass, DType dtype, DType result,
                     const FlashBlockSizes& sizes, std::string_view chip) {
  const Vmem vmem = vmem_limits(chip);
  const int64_t most =
      (sizes.vmem_limit_bytes > 0 ? std::min(sizes.vmem_limit_bytes, vmem.at_most) : vmem.at_most) -
      kSpare;
  FlashWork work{.heads = lengths.heads,
                 .width = round_up(lengths.width, kUnit),
                 .dtype = dtype,
                 .result = result,
                 .counted = lengths.keys};
  if (pass == FlashPass::FORWARD) {
    work.maximum = best_maximum(chip, lengths.keys);
  }
  work.heads_per_tile = std::max<int64_t>(1, sizes.heads_per_tile);
  while (work.heads % work.heads_per_tile != 0) {
    --work.heads_per_tile;
  }
  const bool dq = pass == FlashPass::BACKWARD_DQ;
  const Wanted first = wanted(sizes, dq ? FlashPass::BACKWARD_DKV : pass);
  const Wanted own = wanted(sizes, pass);
  int64_t block_q = even_block(lengths.queries, first.queries);
  int64_t block_kv = even_block(lengths.keys, first.keys);
  work.queries = round_up(lengths.queries, block_q);
  work.keys = round_up(lengths.keys, block_kv);
  work.block_q = dividing(work.queries, dq ? own.queries : block_q);
  work.block_kv = dividing(work.keys, dq ? own.keys : block_kv);
  work.block_kv_compute = dividing(work.block_kv, own.at_a_time);
  // If it is too much, reduce the least important sizes first, down to these numbers, until it
  // fits.
  struct Step {
    int64_t FlashWork::*block;
    int64_t of, least;
  };
  const Step steps[] = {{&FlashWork::block_kv_compute, work.block_kv, 2 * kUnit},
                        {&FlashWork::heads_per_tile, 1, 1},
                        {&FlashWork::block_q, work.queries, 4 * kUnit},
                        {&FlashWork::block_kv, work.keys, 4 * kUnit},
                        {&FlashWork::block_kv_compute, 0, kUnit},
                        {&FlashWork::block_q, work.queries, kUnit},
                        {&FlashWork::block_kv, work.keys, kUnit}};
  for (const Step& step : steps) {
    while (vmem_bytes(work, pass) > most && work.*step.block > step.least) {
      if (step.block == &FlashWork::heads_per_tile) {
        work.heads_per_tile = 1;
        continue;
      }
      const int64_t whole = step.of > 0 ? step.of : work.block_kv;
      work.*step.block = dividing(whole, work.*step.block - kUnit);
      if (step.block == &FlashWork::block_kv) {
        work.block_kv_compute = dividing(work.block_kv, work.block_kv_compute);
      }
    }
  }
  return work;
}

int64_t vmem_limit(const FlashWork& work, FlashPass pass, const FlashBlockSizes& sizes,
                   std::string_view chip) {
  const Vmem vmem = vmem_limits(chip);
  const int64_t taken = vmem_bytes(work, pass);
  const int64_t wanted = taken * 5 / 4 + 2 * kMiB;
  if (sizes.vmem_limit_bytes > 0) {
    const bool fits = taken <= sizes.vmem_limit_bytes - kSpare;
    return std::min(fits ? sizes.vmem_limit_bytes : wanted, vmem.at_most);
  }
  return wanted <= vmem.by_default ? 0 : std::min(wanted, vmem.at_most);
}

}  // namespace kinema::kernels
