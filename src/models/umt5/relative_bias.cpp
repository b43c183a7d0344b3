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

Tensor bucket_choice(Graph& graph, const EncoderConfig& c, int64_t length) {
  const std::vector<int64_t> by_distance = relative_buckets(c, length);
  std::vector<int32_t> buckets;
  buckets.reserve(static_cast<size_t>(length * length));
  for (int64_t query = 0; query < length; ++query) {
    const auto row = by_distance.begin() + (length - 1 - query);
    buckets.insert(buckets.end(), row, row + length);
  }
  const Tensor of_pair = constant(graph, {DType::S32, {1, length, length}},
                                  std::as_bytes(std::span<const int32_t>(buckets)));
  const int64_t count = c.relative_attention_num_buckets;
  const Tensor bucket = iota(graph, {DType::S32, {count, 1, 1}}, Axis(0));
  return convert(compare(bucket, Comparison::EQ, of_pair), DType::F32);
}

Tensor relative_bias(Tensor table, Tensor choice) {
  const Tensor bias = dot_general(nn::as(table, DType::F32), choice,
                                  {.lhs_contract = {0}, .rhs_contract = {0}}, Precision::HIGHEST);
  return expand_dims(bias, Axis(0));
}

}  // namespace kinema::umt5
