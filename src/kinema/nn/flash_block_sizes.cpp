#include "kinema/nn/flash_block_sizes.h"

#include <algorithm>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::nn {
namespace {

constexpr int64_t kLanes = 128;
constexpr int64_t kSublanes = 16;               // of bf16
constexpr int64_t kLargest = int64_t{1} << 20;  // more than any sequence has; sums stay in range

struct Named {
  std::string_view name;
  int64_t kernels::FlashBlockSizes::*size;
};

constexpr Named kQueries[] = {{"block_q", &kernels::FlashBlockSizes::block_q},
                              {"block_q_dkv", &kernels::FlashBlockSizes::block_q_dkv},
                              {"block_q_dq", &kernels::FlashBlockSizes::block_q_dq}};
constexpr Named kKeys[] = {{"block_kv", &kernels::FlashBlockSizes::block_kv},
                           {"block_kv_dkv", &kernels::FlashBlockSizes::block_kv_dkv},
                           {"block_kv_dq", &kernels::FlashBlockSizes::block_kv_dq}};
/// What is computed at a time of block i of the keys; dq has no size of its own.
constexpr Named kComputed[] = {
    {"block_kv_compute", &kernels::FlashBlockSizes::block_kv_compute},
    {"block_kv_dkv_compute", &kernels::FlashBlockSizes::block_kv_dkv_compute}};

/// Forward only the first of each list counts; the fused backward kernel has no pass for dq.
std::span<const Named> used(std::span<const Named> all, const kernels::FlashBlockSizes& sizes,
                            BlockRules rules) {
  if (rules == BlockRules::TPU_FORWARD) {
    return all.first(1);
  }
  return sizes.use_fused_bwd_kernel ? all.first(2) : all;
}

int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
int64_t round_near(int64_t x, int64_t to) {
  return std::max(to, (std::clamp<int64_t>(x, 1, kLargest) + to / 2) / to * to);
}

// Block sizes for which the largest is a multiple of every other: the smallest is kept, the others
// become it or the nearest multiple of it to the largest.
void make_divide(kernels::FlashBlockSizes& sizes, std::span<const Named> names) {
  int64_t smallest = sizes.*names[0].size;
  int64_t largest = smallest;
  for (const Named& each : names) {
    smallest = std::min(smallest, sizes.*each.size);
    largest = std::max(largest, sizes.*each.size);
  }
  const int64_t multiple = round_near(largest, smallest);
  for (const Named& each : names) {
    int64_t& size = sizes.*each.size;
    size = 2 * size < smallest + multiple ? smallest : multiple;
  }
}

[[noreturn]] void refuse(const std::string& what, const kernels::FlashBlockSizes& sizes,
                         BlockRules rules) {
  fail("[attention] flash_block_sizes: {}\nsizes that fit: flash_block_sizes={{{}}}", what,
       to_string(fitting_block_sizes(sizes, rules)));
}

void check_multiple(const kernels::FlashBlockSizes& sizes, BlockRules rules, const Named& name,
                    int64_t of, std::string_view where) {
  const int64_t size = sizes.*name.size;
  if (size % of != 0) {
    refuse(fmt::format("{} is {}, but {} takes multiples of {}", name.name, size, where, of), sizes,
           rules);
  }
}

void check_filled_up(const kernels::FlashBlockSizes& sizes, BlockRules rules,
                     std::span<const Named> names, int64_t length, std::string_view what) {
  int64_t largest = 0;
  for (const Named& each : names) {
    largest = std::max(largest, sizes.*each.size);
  }
  const int64_t filled = round_up(length, largest);
  for (const Named& each : names) {
    const int64_t size = sizes.*each.size;
    if (filled % size != 0) {
      refuse(fmt::format("{} {} are filled up to {}, a multiple of {}, which {}={} does not divide",
                         length, what, filled, largest, each.name, size),
             sizes, rules);
    }
  }
}

}  // namespace

std::span<const KnownBlockSizes> known_block_sizes() {
  // MaxDiffusion's comments and scripts for Wan. Its training sizes for v5p and v6e do not compile
  // there (2048 does not divide 3072's multiples; 3024 is no multiple of 128), so these are the
  // nearest that fit.
  static const std::vector<KnownBlockSizes> kKnown{
      {"v5p",
       BlockRules::TPU_FORWARD,
       {.block_q = 3024, .block_kv = 2048, .block_kv_compute = 1024},
       "as in use"},
      {"v5p",
       BlockRules::TPU_TRAINING,
       {.block_q = 3072,
        .block_kv = 2048,
        .block_kv_compute = 1024,
        .block_q_dkv = 1024,
        .block_kv_dkv = 2048,
        .block_kv_dkv_compute = 256,
        .block_q_dq = 1024,
        .block_kv_dq = 2048},
       "in use: block_q 3024, block_kv_dkv and block_kv_dq 3072, which are refused"},
      {"v6e",
       BlockRules::TPU_FORWARD,
       {.block_q = 3024, .block_kv = 2048, .block_kv_compute = 1024},
       "as in use"},
      {"v6e",
       BlockRules::TPU_TRAINING,
       {.block_q = 3072,
        .block_kv = 2048,
        .block_kv_compute = 1024,
        .block_q_dkv = 3072,
        .block_kv_dkv = 2048,
        .block_kv_dkv_compute = 1024,
        .block_q_dq = 3072,
        .block_kv_dq = 2048},
       "in use: blocks of 3024 queries, which are refused"},
      {"tpu7x",
       BlockRules::TPU_FORWARD,
       {.block_q = 9472, .block_kv = 1024, .block_kv_compute = 1024},
       "as in use"},
  };
  return kKnown;
}

std::optional<kernels::FlashBlockSizes> block_sizes_for(std::string_view generation,
                                                        BlockRules use) {
  for (const KnownBlockSizes& known : known_block_sizes()) {
    if (known.generation == generation && known.use == use) {
      return known.sizes;
    }
  }
  return std::nullopt;
}

kernels::FlashBlockSizes fitting_block_sizes(const kernels::FlashBlockSizes& given,
                                             BlockRules rules) {
  kernels::FlashBlockSizes sizes = given;
  const int64_t queries = rules == BlockRules::TPU_TRAINING  ? kLanes
                          : rules == BlockRules::TPU_FORWARD ? kSublanes
                                                             : 1;
  for (const Named& each : kQueries) {
    sizes.*each.size = round_near(sizes.*each.size, queries);
  }
  const int64_t keys = rules == BlockRules::ANY ? 1 : kLanes;
  for (const Named& each : kKeys) {
    sizes.*each.size = round_near(sizes.*each.size, keys);
  }
  if (rules == BlockRules::TPU_TRAINING) {
    make_divide(sizes, kQueries);
    make_divide(sizes, kKeys);
  }
  for (size_t i = 0; i < std::size(kComputed); ++i) {
    int64_t& computed = sizes.*kComputed[i].size;
    const int64_t block = sizes.*kKeys[i].size;
    computed = std::min(round_near(computed, keys), block);
    while (block % computed != 0) {
      computed -= keys;
    }
  }
  return sizes;
}

void check_block_sizes(const kernels::FlashBlockSizes& sizes, BlockRules rules, int64_t queries,
                       int64_t keys) {
  for (const std::span<const Named> names :
       {std::span<const Named>(kQueries), std::span<const Named>(kKeys),
        std::span<const Named>(kComputed)}) {
    for (const Named& each : names) {
      if (sizes.*each.size < 1 || sizes.*each.size > kLargest) {
        refuse(
            fmt::format("{} is {} but must be from 1 to {}", each.name, sizes.*each.size, kLargest),
            sizes, rules);
      }
    }
  }
  if (rules == BlockRules::ANY) {
    return;
  }
  const auto query_names = used(kQueries, sizes, rules);
  const auto key_names = used(kKeys, sizes, rules);
  check_multiple(sizes, rules, query_names[0], kSublanes, "the forward kernel");
  for (const Named& each : query_names.subspan(1)) {
    check_multiple(sizes, rules, each, kLanes, "the backward kernel");
  }
  for (const Named& each : key_names) {
    check_multiple(sizes, rules, each, kLanes, "a TPU");
  }
  for (size_t i = 0; i < std::min(key_names.size(), std::size(kComputed)); ++i) {
    check_multiple(sizes, rules, kComputed[i], kLanes, "a TPU");
    if (sizes.*kKeys[i].size % (sizes.*kComputed[i].size) != 0) {
      refuse(fmt::format("{}={} does not divide {}={}", kComputed[i].name, sizes.*kComputed[i].size,
                         kKeys[i].name, sizes.*kKeys[i].size),
             sizes, rules);
    }
  }
  check_filled_up(sizes, rules, query_names, queries, "queries");
  check_filled_up(sizes, rules, key_names, keys, "keys");
}

std::string to_string(const kernels::FlashBlockSizes& s) {
  return fmt::format(
      "block_q: {}, block_kv: {}, block_kv_compute: {}, block_q_dkv: {}, block_kv_dkv: {}, "
      "block_kv_dkv_compute: {}, block_q_dq: {}, block_kv_dq: {}, use_fused_bwd_kernel: {}",
      s.block_q, s.block_kv, s.block_kv_compute, s.block_q_dkv, s.block_kv_dkv,
      s.block_kv_dkv_compute, s.block_q_dq, s.block_kv_dq, s.use_fused_bwd_kernel);
}

}  // namespace kinema::nn
