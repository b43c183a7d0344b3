#pragma once

#include <cstdint>
#include <vector>

#include "kinema/graph/ops.h"
#include "kinema/models/t5/config.h"

namespace kinema::t5 {

/// The bucket of each distance key - query from -(length - 1) to length - 1, in this order.
///
/// Half of the buckets are for keys behind the query. Of each half, the first half holds one
/// distance each, and the rest grows with the distance's logarithm up to
/// relative_attention_max_distance:  e + floor(ln(r / e) / ln(max / e) * (n - e)).
std::vector<int64_t> relative_buckets(const EncoderConfig& config, int64_t length);

/// What a layer adds to its scores: table [buckets, heads] -> f32 [1, heads, t, t], a function of
/// key - query.
Tensor relative_bias(Tensor table, const EncoderConfig& config, int64_t length);

}  // namespace kinema::t5
