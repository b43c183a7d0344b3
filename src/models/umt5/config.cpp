#include "models/umt5/config.h"

#include <cmath>
#include <string_view>

#include "core/error.h"

namespace kinema::umt5 {
namespace {

void check_range(std::string_view key, int64_t value, int64_t low, int64_t high) {
  check(value >= low && value <= high, "[umt5] `{}` is {} but must be from {} to {}", key, value,
        low, high);
}

}  // namespace

void validate(const EncoderConfig& c) {
  // The bounds leave an order of magnitude above umt5-xxl and keep products of sizes inside int64.
  check_range("vocab_size", c.vocab_size, 1, 1 << 24);
  check_range("d_model", c.d_model, 1, 1 << 17);
  check_range("d_kv", c.d_kv, 1, 1 << 12);
  check_range("d_ff", c.d_ff, 1, 1 << 20);
  check_range("num_layers", c.num_layers, 1, 1000);
  check_range("num_heads", c.num_heads, 1, 1 << 12);
  // Half of the buckets look back, half of those are one position wide.
  check_range("relative_attention_num_buckets", c.relative_attention_num_buckets, 4, 1 << 16);
  check_range("relative_attention_max_distance", c.relative_attention_max_distance,
              c.relative_attention_num_buckets / 4 + 1, 1 << 24);
  check(std::isfinite(c.layer_norm_epsilon) && c.layer_norm_epsilon > 0.0 &&
            c.layer_norm_epsilon < 1.0,
        "[umt5] `layer_norm_epsilon` is {} but must lie between 0 and 1", c.layer_norm_epsilon);
}

}  // namespace kinema::umt5
