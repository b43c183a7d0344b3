#include "kinema/models/t5/relative_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>

#include "kinema/nn/linear.h"

namespace kinema::t5 {

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
      // In f32 as in the reference: near an integer, floor depends on the rounding.
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
  std::vector<int32_t> narrow(buckets.begin(), buckets.end());
  narrow.push_back(0);  // never read: makes each row one longer than the distance between rows
  const int64_t heads = table.dim(1);
  const int64_t row = 2 * length;
  const Tensor ids =
      constant(graph, {DType::S32, {row}}, std::as_bytes(std::span<const int32_t>(narrow)));
  // [heads, row]: for each head one value per distance, from 1 - t to t - 1. The row of query q is
  // the t values that start at t - 1 - q. So rows of 2t values at a stride of 2t - 1 shift by one
  // per query. Compilers read such slices in place, without a gather of single elements.
  Tensor x = transpose(take(nn::as(table, DType::F32), ids), {1, 0});
  x = broadcast_to(expand_dims(x, Axis(1)), {heads, length, row});
  x = slice(reshape(x, {heads, length * row}), Axis(1), 0, length * (row - 1));
  x = slice(reshape(x, {heads, length, row - 1}), Axis(2), length - 1, length);
  return expand_dims(x, Axis(0));
}

}  // namespace kinema::t5
