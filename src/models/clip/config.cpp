#include "models/clip/config.h"

#include <cmath>
#include <string_view>

#include "core/error.h"

namespace kinema::clip {
namespace {

void check_range(std::string_view key, int64_t value, int64_t low, int64_t high) {
  check(value >= low && value <= high, "[clip] `{}` is {} but must be from {} to {}", key, value,
        low, high);
}

}  // namespace

void validate(const VisionConfig& c) {
  // An order of magnitude above the largest published model, and far inside int64.
  check_range("hidden_size", c.hidden_size, 1, 1 << 17);
  check_range("intermediate_size", c.intermediate_size, 1, 1 << 20);
  // The tokens are what the last layer but one makes.
  check_range("num_hidden_layers", c.num_hidden_layers, 1, 1000);
  check_range("num_attention_heads", c.num_attention_heads, 1, 1024);
  check(c.num_channels == 3, "[clip] `num_channels` is {} but images have 3", c.num_channels);
  check_range("image_size", c.image_size, 1, 1 << 14);
  check_range("patch_size", c.patch_size, 1, c.image_size);
  check(c.hidden_size % c.num_attention_heads == 0,
        "[clip] `hidden_size` is {} but must be a multiple of `num_attention_heads`, {}",
        c.hidden_size, c.num_attention_heads);
  check(std::isfinite(c.layer_norm_eps) && c.layer_norm_eps > 0.0 && c.layer_norm_eps < 1.0,
        "[clip] `layer_norm_eps` is {} but must lie between 0 and 1", c.layer_norm_eps);
}

}  // namespace kinema::clip
