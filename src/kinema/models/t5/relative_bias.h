#pragma once

#include <cstdint>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/t5/config.h"

namespace kinema::t5 {

/// The bucket of each distance key - query from -(length - 1) to length - 1, in this order.
///
/// Half of the buckets are for keys after the query. In each half, the first half of the buckets
/// hold one distance each, and the bucket of larger distances grows with their logarithm up to
/// relative_attention_max_distance:  e + floor(ln(r / e) / ln(max / e) * (n - e)).
std::vector<int64_t> relative_buckets(const EncoderConfig& config, int64_t length);

/// The term that a layer adds to its scores, a function of key - query: table [buckets, heads] ->
/// f32 [1, heads, t, t].
Tensor relative_bias(Tensor table, const EncoderConfig& config, int64_t length);

}  // namespace kinema::t5
