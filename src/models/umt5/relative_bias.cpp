#include "models/umt5/relative_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>

#include "nn/linear.h"

namespace kinema::umt5 {

std::vector<int64_t> relative_buckets(const EncoderConfig& c, int64_t length) {
  const int64_t half = c.relative_attention_num_buckets / 2;
  const int64_t exact = half / 2;
  const auto log_range = static_cast<float>(std::log(
      static_cast<double>(c.relative_attention_max_distance) / static_cast<double>(exact)));
  std::vector<int64_t> buckets;
  for (int64_t distance = 1 - length; distance < length; ++distance) {
    const int64_t r = std::abs(distance);
    int64_t bucket = r;
    if (r >= exact) {
      // In f32, as the reference rounds: at powers of the range the floor depends on it.
      const float ratio = std::log(static_cast<float>(r) / static_cast<float>(exact)) / log_range;
      bucket = exact + static_cast<int64_t>(ratio * static_cast<float>(half - exact));
      bucket = std::min(bucket, half - 1);
    }
    buckets.push_back(distance > 0 ? half + bucket : bucket);
  }
  return buckets;
}

Tensor relative_bias(Tensor table, const EncoderConfig& c, int64_t length) {
  Graph& graph = table.graph();
  const std::vector<int64_t> buckets = relative_buckets(c, length);
  const std::vector<int32_t> narrow(buckets.begin(), buckets.end());
  const int64_t distances = 2 * length - 1;
  const Tensor ids =
      constant(graph, {DType::S32, {distances}}, std::as_bytes(std::span<const int32_t>(narrow)));
  const int64_t heads = table.dim(1);
  // Of every head, a value per distance; then of every pair, the value of its distance. Flat, so
  // that the second step is one number by one place, which compilers put into the sum it is part
  // of instead of writing [heads, t, t] down.
  const Tensor by_distance =
      reshape(transpose(take(nn::as(table, DType::F32), ids), {1, 0}), {heads * distances});
  const auto place = [&](int64_t axis) {
    return iota(graph, {DType::S32, {1, heads, length, length}}, Axis(axis));
  };
  const auto number = [&](int64_t value) {
    return constant(graph, static_cast<double>(value), {DType::S32, {}});
  };
  return take(by_distance, place(1) * number(distances) + place(3) - place(2) + number(length - 1));
}

}  // namespace kinema::umt5
