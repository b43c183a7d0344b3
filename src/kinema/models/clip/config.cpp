#include "kinema/models/clip/config.h"

#include "kinema/core/error.h"
#include "kinema/models/config_check.h"

namespace kinema::clip {
namespace {

constexpr ConfigCheck kCheck{"clip"};

}  // namespace

void validate(const VisionConfig& c) {
  // An order of magnitude above the largest published model, and far inside int64.
  kCheck.range("hidden_size", c.hidden_size, 1, 1 << 17);
  kCheck.range("intermediate_size", c.intermediate_size, 1, 1 << 20);
  // The tokens are what the last layer but one makes.
  kCheck.range("num_hidden_layers", c.num_hidden_layers, 1, 1000);
  kCheck.range("num_attention_heads", c.num_attention_heads, 1, 1024);
  check(c.num_channels == 3, "[clip] `num_channels` is {} but images have 3", c.num_channels);
  kCheck.range("image_size", c.image_size, 1, 1 << 14);
  kCheck.range("patch_size", c.patch_size, 1, c.image_size);
  check(c.hidden_size % c.num_attention_heads == 0,
        "[clip] `hidden_size` is {} but must be a multiple of `num_attention_heads`, {}",
        c.hidden_size, c.num_attention_heads);
  kCheck.epsilon("layer_norm_eps", c.layer_norm_eps);
}

}  // namespace kinema::clip
