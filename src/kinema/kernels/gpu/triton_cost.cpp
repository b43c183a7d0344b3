#include "kinema/kernels/gpu/triton_cost.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "kinema/kernels/gpu/triton_flash.h"
#include "kinema/kernels/gpu/triton_tiles.h"

namespace kinema::kernels {
namespace {

using triton::Architecture;
using triton::FlashWork;

struct Kind {
  std::string_view prefix;  // of the kernel's name
  std::string_view name;
  double products;  // of queries x keys x width per head, two operations each
  // Matrices of q's and of k's shape that are read or written.
  double query_matrices, key_matrices;
};
constexpr std::array<Kind, 3> kKinds{{{"flash_forward_", "flash forward", 2, 2, 2},
                                      {"flash_backward_dkv_", "flash backward, dk and dv", 4, 2, 4},
                                      {"flash_backward_dq_", "flash backward, dq", 3, 3, 2}}};

/// Fraction of the bf16 peak.
struct Share {
  Architecture architecture;
  double forward, backward;
  bool is_published = false;  // forward
};
// Published for Triton kernels, forward, heads of 128, 16 thousand tokens: Hopper 395 of 989
// TFLOP/s (FlashAttention-3's paper, arXiv:2407.08608), Blackwell about 600 of 2250
// (FlashAttention-4's paper, which states a speedup of 2.7). The others are estimates: half the
// peak where products are slower relative to exponentials; the backward pass loses as much as
// FlashAttention-2's on Hopper, 322 for 370 (first paper).
constexpr double kBackward = 322.0 / 370;
constexpr std::array<Share, 4> kShares{
    {{Architecture::AMPERE, 0.5, 0.5 * kBackward},
     {Architecture::HOPPER, 395.0 / 989, 395.0 / 989 * kBackward, true},
     {Architecture::BLACKWELL, 600.0 / 2250, 600.0 / 2250 * kBackward, true},
     {Architecture::CARD, 0.5, 0.5 * kBackward}}};
/// Exact f32 products run outside the tensor cores, at a sixteenth of the rate (A100: 19.5 of 312
/// TFLOP/s, H100: 67 of 989). Estimated.
constexpr double kF32 = 1.0 / 16;

/// Removes `mark` and the number after it from the front of `text`; returns the number.
std::optional<int64_t> take_number(std::string_view& text, std::string_view mark) {
  int64_t value = 0;
  if (!text.starts_with(mark)) {
    return std::nullopt;
  }
  text.remove_prefix(mark.size());
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return value;
}

/// Parses `b1_s75600_t75600_n40_d128_bf16`, as make_kernel names kernels.
std::optional<FlashWork> read_work(std::string_view text) {
  FlashWork work;
  for (const auto& [mark, value] : {std::pair<std::string_view, int64_t*>{"b", &work.batch},
                                    {"_s", &work.queries},
                                    {"_t", &work.keys},
                                    {"_n", &work.heads},
                                    {"_d", &work.width}}) {
    const std::optional<int64_t> number = take_number(text, mark);
    if (!number) {
      return std::nullopt;
    }
    *value = *number;
  }
  work.dtype = text == "_f32" ? DType::F32 : DType::BF16;
  return work;
}

/// The quoted text after `name = `; quotes inside the kernel's text are escaped.
std::string_view name_in(std::string_view configuration) {
  constexpr std::string_view kKey = "name = \"";
  const size_t at = configuration.find(kKey);
  if (at == std::string_view::npos) {
    return {};
  }
  configuration.remove_prefix(at + kKey.size());
  return configuration.substr(0, configuration.find('"'));
}

}  // namespace

std::optional<KernelCost> triton_kernel_cost(std::string_view configuration,
                                             std::string_view chip) {
  const std::string_view name = name_in(configuration);
  const auto* kind =
      std::ranges::find_if(kKinds, [&](const Kind& each) { return name.starts_with(each.prefix); });
  if (kind == kKinds.end()) {
    return std::nullopt;
  }
  const std::optional<FlashWork> work = read_work(name.substr(kind->prefix.size()));
  if (!work) {
    return std::nullopt;
  }
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double heads = number(work->batch) * number(work->heads);
  const bool f32 = work->dtype == DType::F32;
  const bool forward = kind == kKinds.begin();
  const double lines = (forward ? 1.0 : 2.0) * 4.0 * heads * number(work->queries);
  const Share& share =
      *std::ranges::find(kShares, triton::gpu_architecture(chip), &Share::architecture);
  const std::string note =
      !forward              ? "the rate of attention's backward pass in Triton is estimated"
      : f32                 ? "the rate of attention of f32 in Triton is estimated"
      : !share.is_published ? "attention's share of the peak in Triton is estimated for this chip"
                            : "";
  return KernelCost{.name = std::string(kind->name) + " (Triton)",
                    .flops = 2 * kind->products * heads * number(work->queries) *
                             number(work->keys) * number(work->padded_width()),
                    .hbm_bytes = number(byte_size(work->dtype)) * heads * number(work->width) *
                                     (kind->query_matrices * number(work->queries) +
                                      kind->key_matrices * number(work->keys)) +
                                 lines,
                    .peak_share = (forward ? share.forward : share.backward) * (f32 ? kF32 : 1.0),
                    .note = note};
}

}  // namespace kinema::kernels
