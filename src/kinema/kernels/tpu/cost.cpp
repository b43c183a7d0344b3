#include "kinema/kernels/tpu/cost.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <vector>

#include "kinema/kernels/tpu/base64.h"

namespace kinema::kernels {
namespace {

/// The integers in `text` between `key` and the next `end`.
std::vector<int64_t> numbers_after(std::string_view text, std::string_view key, char end,
                                   size_t& at) {
  std::vector<int64_t> out;
  at = text.find(key, at);
  if (at == std::string_view::npos) {
    return out;
  }
  at += key.size();
  const size_t stop = std::min(text.find(end, at), text.size());
  while (at < stop) {
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data() + at, text.data() + stop, value);
    if (error == std::errc()) {
      out.push_back(value);
      at = static_cast<size_t>(rest - text.data());
    } else {
      ++at;
    }
  }
  return out;
}

/// The quoted text after `key`.
std::string_view quoted_after(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) {
    return {};
  }
  const size_t begin = text.find('"', at + key.size());
  const size_t end = begin == std::string_view::npos ? begin : text.find('"', begin + 1);
  return end == std::string_view::npos ? std::string_view()
                                       : text.substr(begin + 1, end - begin - 1);
}

constexpr std::string_view kFixed = "flash_forward_fixed_";

struct Kind {
  std::string_view prefix;  // of the function's name
  std::string_view name;
  double products;    // of heads x queries x keys x width, two operations each
  bool queries_last;  // the grid's last axis counts blocks of queries
};
// Longer names first, because some are prefixes of others.
constexpr std::array<Kind, 5> kKinds{{{kFixed, "flash forward, fixed maximum", 2, false},
                                      {"flash_forward_", "flash forward", 2, false},
                                      {"flash_backward_dkv_", "flash backward, dk and dv", 4, true},
                                      {"flash_backward_dq_", "flash backward, dq", 3, false},
                                      {"flash_backward_", "flash backward", 5, true}}};

/// Fractions of the peak in the static schedules that libtpu 0.0.51 generates for these kernels
/// (bf16, heads of 128, 256 keys at a time). They are upper bounds: throttled clocks and limited
/// bandwidth are not included. The overhead per block of keys, in units of queries:
///
///   share = most / (1 + overhead / block_q)
struct Share {
  double most, overhead;
  double at(double block_q) const { return most / (1 + overhead / block_q); }
};
struct ChipShares {
  std::string_view chip;
  Share forward, fixed, dkv, dq, fused;  // `fixed`: forward with a fixed maximum
};
// From 2816 and 4736 queries by 2048 keys, with a fixed maximum by 1024. Products of width 128 fill
// half of the matrix units of v6e and tpu7x.
constexpr std::array<ChipShares, 5> kShares{
    {{"v4", {0.99, 220}, {0.99, 220}, {1.0, 72}, {0.996, 57}, {0.96, 80}},
     {"v5e", {0.99, 220}, {0.99, 220}, {1.0, 72}, {0.996, 57}, {0.96, 80}},
     {"v5p", {0.99, 220}, {0.99, 220}, {1.0, 72}, {0.996, 57}, {0.96, 80}},
     {"v6e", {0.393, 35}, {0.494, 317}, {0.492, 155}, {0.553, 84}, {0.49, 150}},
     {"tpu7x", {0.393, 35}, {0.393, 35}, {0.492, 155}, {0.553, 84}, {0.49, 150}}}};
/// Forward kernel with fewer, or more, than 256 keys at a time: its factor, by the schedules for
/// v5p.
constexpr double kFewKeysAtATime = 0.63;
constexpr double kManyKeysAtATime = 0.92;
/// An exact f32 product is six bf16 passes.
constexpr double kF32 = 1.0 / 6;

double share_of(const Kind& kind, std::string_view chip, int64_t block_q, int64_t at_a_time,
                bool f32) {
  const auto* found = std::ranges::find(kShares, chip, &ChipShares::chip);
  const ChipShares& row = found == kShares.end() ? kShares[2] : *found;
  const bool forward = kind.products == 2;
  const Share& share = forward              ? row.forward
                       : kind.products == 4 ? row.dkv
                       : kind.products == 3 ? row.dq
                                            : row.fused;
  const auto queries = static_cast<double>(block_q);
  // A fixed maximum does less work, so it is never slower than the running one.
  const double most = kind.prefix == kFixed ? std::max(row.fixed.at(queries), share.at(queries))
                                            : share.at(queries);
  constexpr int64_t kUsual = 256;
  const double keys = !forward || at_a_time == kUsual ? 1.0
                      : at_a_time < kUsual            ? kFewKeysAtATime
                                                      : kManyKeysAtATime;
  return most * keys * (f32 ? kF32 : 1.0);
}

}  // namespace

std::optional<KernelCost> tpu_kernel_cost(std::string_view configuration, std::string_view chip) {
  const std::string text = from_base64(quoted_after(configuration, "\"body\":"));
  const std::string_view function = quoted_after(text, "sym_name = ");
  const auto* kind = std::ranges::find_if(
      kKinds, [&](const Kind& each) { return function.starts_with(each.prefix); });
  if (kind == kKinds.end()) {
    return std::nullopt;
  }
  size_t at = 0;
  const std::vector<int64_t> grid = numbers_after(text, "iteration_bounds = array<i64:", '>', at);
  at = std::min(text.find("window_params", at), text.size());
  const std::vector<int64_t> q = numbers_after(text, "window_bounds = array<i64:", '>', at);
  const std::vector<int64_t> k = numbers_after(text, "window_bounds = array<i64:", '>', at);
  if (grid.size() != 3 || q.size() != 3 || k.size() != 3) {
    return std::nullopt;
  }
  const auto product = [](std::initializer_list<int64_t> all) {
    double out = 1;
    for (const int64_t each : all) {
      out *= static_cast<double>(each);
    }
    return out;
  };
  KernelCost cost;
  cost.name = std::string(kind->name) + " (Mosaic)";
  cost.flops = 2 * kind->products * product({grid[0], grid[1], grid[2], q[0], q[1], q[2], k[1]});
  size_t from = 0;
  const std::vector<int64_t> bytes = numbers_after(configuration, "\"bytes_accessed\":", '}', from);
  cost.hbm_bytes = bytes.empty() ? 0 : static_cast<double>(bytes[0]);
  const bool f32 = text.find("contract_precision<fp32>") != std::string::npos;
  // The function's name ends with the keys per loop step.
  int64_t at_a_time = 0;
  std::from_chars(function.data() + kind->prefix.size(), function.data() + function.size(),
                  at_a_time);
  cost.peak_share = share_of(*kind, chip, q[1], at_a_time, f32);
  return cost;
}

}  // namespace kinema::kernels
