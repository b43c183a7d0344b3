#include "kinema/models/t5/config.h"

#include "kinema/models/config_check.h"

namespace kinema::t5 {
namespace {

constexpr ConfigCheck kCheck{"t5"};

}  // namespace

void validate(const EncoderConfig& c) {
  // The bounds are an order of magnitude above the xxl sizes and keep products of sizes inside
  // int64.
  kCheck.range("vocab_size", c.vocab_size, 1, 1 << 24);
  kCheck.range("d_model", c.d_model, 1, 1 << 17);
  kCheck.range("d_kv", c.d_kv, 1, 1 << 12);
  kCheck.range("d_ff", c.d_ff, 1, 1 << 20);
  kCheck.range("num_layers", c.num_layers, 1, 1000);
  kCheck.range("num_heads", c.num_heads, 1, 1 << 12);
  // Half of the buckets are for keys after the query; half of those hold one distance each.
  kCheck.range("relative_attention_num_buckets", c.relative_attention_num_buckets, 4, 1 << 16);
  kCheck.range("relative_attention_max_distance", c.relative_attention_max_distance,
               c.relative_attention_num_buckets / 4 + 1, 1 << 24);
  kCheck.epsilon("layer_norm_epsilon", c.layer_norm_epsilon);
}

}  // namespace kinema::t5
