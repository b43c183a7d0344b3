#include "kinema/kernels/block_sizes.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "kinema/core/error.h"

namespace kinema::kernels {

std::span<const NamedBlockSize> block_size_names() {
  static constexpr std::array<NamedBlockSize, 8> kNames{
      {{"block_q", &FlashBlockSizes::block_q},
       {"block_kv", &FlashBlockSizes::block_kv},
       {"block_kv_compute", &FlashBlockSizes::block_kv_compute},
       {"block_q_dkv", &FlashBlockSizes::block_q_dkv},
       {"block_kv_dkv", &FlashBlockSizes::block_kv_dkv},
       {"block_kv_dkv_compute", &FlashBlockSizes::block_kv_dkv_compute},
       {"block_q_dq", &FlashBlockSizes::block_q_dq},
       {"block_kv_dq", &FlashBlockSizes::block_kv_dq}}};
  return kNames;
}

void check_block_sizes(const FlashBlockSizes& sizes) {
  // Longer than any sequence, and small enough that sums do not overflow.
  constexpr int64_t kLargest = int64_t{1} << 20;
  for (const NamedBlockSize& each : block_size_names()) {
    const int64_t size = sizes.*each.size;
    check(size >= 1 && size <= kLargest,
          "[attention] flash_block_sizes: {} is {} but must be from 1 to {}", each.name, size,
          kLargest);
  }
}

std::string to_string(const FlashBlockSizes& sizes) {
  std::string out = "{";
  for (const NamedBlockSize& each : block_size_names()) {
    out += fmt::format("{}: {}, ", each.name, sizes.*each.size);
  }
  return out + fmt::format("use_fused_bwd_kernel: {}}}", sizes.use_fused_bwd_kernel);
}

}  // namespace kinema::kernels
