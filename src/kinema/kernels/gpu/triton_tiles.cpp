#include "kinema/kernels/gpu/triton_tiles.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "kinema/core/error.h"

namespace kinema::kernels::triton {
namespace {

constexpr int64_t kKiB = 1024;

struct Known {
  std::string_view part;  // of a chip's name, lower case
  Architecture architecture;
};
// GH200 and GB200 contain the chip at the end of their names.
constexpr std::array<Known, 9> kKnown{{{"a100", Architecture::AMPERE},
                                       {"a800", Architecture::AMPERE},
                                       {"h100", Architecture::HOPPER},
                                       {"h200", Architecture::HOPPER},
                                       {"h800", Architecture::HOPPER},
                                       {"h20", Architecture::HOPPER},
                                       {"b100", Architecture::BLACKWELL},
                                       {"b200", Architecture::BLACKWELL},
                                       {"b300", Architecture::BLACKWELL}}};

/// Rows of 64, 128 and 256 elements.
constexpr std::array<int64_t, 3> kWidths{64, 128, 256};
using Tiles = std::array<FlashTile, kWidths.size()>;
struct Row {
  FlashPass pass;
  Tiles tiles;  // queries, keys, warps, stages
};
using Rows = std::array<Row, 3>;

// bf16 and f16, as reported by nvJitLink 13.2: at most 24 bytes of registers are spilled where
// lengths or widths need masks, none or 4 elsewhere.
constexpr Rows kHopper{
    {{FlashPass::FORWARD, {{{128, 64, 8, 3}, {128, 64, 8, 3}, {128, 32, 8, 2}}}},
     {FlashPass::BACKWARD_DKV, {{{64, 128, 8, 2}, {32, 128, 8, 3}, {16, 64, 8, 2}}}},
     {FlashPass::BACKWARD_DQ, {{{128, 64, 8, 3}, {128, 64, 8, 3}, {64, 32, 8, 2}}}}}};
// Sums are in tensor memory and leave registers for larger blocks.
constexpr Rows kBlackwell{
    {{FlashPass::FORWARD, {{{128, 128, 8, 2}, {128, 128, 8, 2}, {128, 32, 8, 2}}}},
     {FlashPass::BACKWARD_DKV, {{{64, 128, 8, 2}, {64, 128, 8, 3}, {32, 64, 8, 2}}}},
     {FlashPass::BACKWARD_DQ, {{{128, 64, 8, 3}, {128, 64, 8, 3}, {64, 32, 8, 2}}}}}};
// Loaded operands also need registers.
constexpr Rows kAmpere{
    {{FlashPass::FORWARD, {{{128, 64, 8, 3}, {128, 64, 8, 3}, {128, 16, 8, 2}}}},
     {FlashPass::BACKWARD_DKV, {{{32, 128, 8, 3}, {16, 128, 8, 3}, {16, 64, 8, 2}}}},
     {FlashPass::BACKWARD_DQ, {{{128, 64, 8, 3}, {128, 32, 8, 2}, {64, 16, 8, 2}}}}}};
constexpr Rows kCard{
    {{FlashPass::FORWARD, {{{128, 64, 8, 3}, {128, 64, 8, 2}, {128, 16, 8, 2}}}},
     {FlashPass::BACKWARD_DKV, {{{32, 128, 8, 3}, {16, 128, 8, 3}, {16, 64, 8, 2}}}},
     {FlashPass::BACKWARD_DQ, {{{128, 64, 8, 3}, {128, 32, 8, 2}, {64, 16, 8, 2}}}}}};
// f32 everywhere: exact products are written out as multiplications of single threads, and larger
// tiles spill thousands of bytes.
constexpr Rows kFull{
    {{FlashPass::FORWARD, {{{32, 16, 8, 1}, {32, 16, 8, 1}, {16, 16, 4, 1}}}},
     {FlashPass::BACKWARD_DKV, {{{16, 32, 4, 1}, {16, 32, 4, 1}, {16, 16, 4, 1}}}},
     {FlashPass::BACKWARD_DQ, {{{32, 16, 8, 1}, {32, 16, 8, 1}, {16, 16, 4, 1}}}}}};

const Rows& rows_of(DType dtype, Architecture architecture) {
  if (dtype == DType::F32) {
    return kFull;
  }
  switch (architecture) {
    case Architecture::HOPPER:
      return kHopper;
    case Architecture::BLACKWELL:
      return kBlackwell;
    case Architecture::AMPERE:
      return kAmpere;
    case Architecture::CARD:
      return kCard;
  }
  fail("[kernels] unknown architecture {}", static_cast<int>(architecture));
}

/// The parts of a kernel's shared memory, in bytes.
struct Parts {
  int64_t stays;   // the program's own rows
  int64_t passes;  // one block of the loop
  int64_t again;   // extra for operands of both products, stored transposed too
  int64_t scores;  // p and ds as operands of the second products
};

Parts parts_of(FlashPass pass, const FlashWork& work) {
  const int64_t bytes = byte_size(work.dtype);
  const FlashTile& tile = work.tile;
  const int64_t q = tile.block_q * work.padded_width() * bytes;
  const int64_t k = tile.block_kv * work.padded_width() * bytes;
  const int64_t scores = tile.block_q * tile.block_kv * bytes;
  switch (pass) {
    case FlashPass::FORWARD:
      return {q, 2 * k, 0, scores};
    case FlashPass::BACKWARD_DKV:
      return {2 * k, 2 * (q + tile.block_q * byte_size(DType::F32)), 2 * q, 2 * scores};
    case FlashPass::BACKWARD_DQ:
      return {2 * q, 2 * k, k, scores};
  }
  fail("[kernels] unknown pass {}", static_cast<int>(pass));
}

}  // namespace

Architecture gpu_architecture(std::string_view chip) {
  std::string name(chip);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto* found = std::ranges::find_if(
      kKnown, [&](const Known& each) { return name.find(each.part) != std::string::npos; });
  return found == kKnown.end() ? Architecture::CARD : found->architecture;
}

int64_t max_shared_bytes(Architecture architecture) {
  switch (architecture) {
    case Architecture::AMPERE:
      return 163 * kKiB;
    case Architecture::HOPPER:
    case Architecture::BLACKWELL:
      return 227 * kKiB;
    case Architecture::CARD:
      return 99 * kKiB;
  }
  fail("[kernels] unknown architecture {}", static_cast<int>(architecture));
}

int64_t shared_bytes(FlashPass pass, const FlashWork& work, Architecture architecture) {
  constexpr int64_t kBesides = kKiB;  // barriers, rearranged lines
  const Parts parts = parts_of(pass, work);
  const int64_t stages = work.tile.stages;
  if (work.dtype != DType::F32 && architecture == Architecture::HOPPER) {
    return parts.stays + stages * parts.passes;
  }
  if (work.dtype != DType::F32 && architecture == Architecture::BLACKWELL) {
    return parts.stays + stages * parts.passes + parts.again + kBesides;
  }
  // The current block is in registers.
  return parts.stays + std::max<int64_t>(1, stages - 1) * parts.passes + parts.scores + kBesides;
}

FlashTile best_tile(FlashPass pass, const FlashWork& work, std::string_view chip) {
  const Row& row =
      *std::ranges::find(rows_of(work.dtype, gpu_architecture(chip)), pass, &Row::pass);
  const auto* width =
      std::ranges::find_if(kWidths, [&](int64_t each) { return work.padded_width() <= each; });
  check(width != kWidths.end(),
        "[kernels] heads of {} were given, at most {} was expected of the Triton kernels",
        work.width, kWidths.back());
  return row.tiles[static_cast<size_t>(width - kWidths.begin())];
}

void check_fits(FlashPass pass, const FlashWork& work, std::string_view chip) {
  const Architecture architecture = gpu_architecture(chip);
  const int64_t wanted = shared_bytes(pass, work, architecture);
  const int64_t most = max_shared_bytes(architecture);
  check(wanted <= most,
        "[kernels] a tile of {} queries and {} keys in {} stages takes {} bytes of shared memory, "
        "at most {} was expected on {}",
        work.tile.block_q, work.tile.block_kv, work.tile.stages, wanted, most,
        chip.empty() ? "a GPU" : chip);
}

}  // namespace kinema::kernels::triton
