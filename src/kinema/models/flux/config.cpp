#include "kinema/models/flux/config.h"

#include "kinema/core/error.h"
#include "kinema/models/config_check.h"

namespace kinema::flux {
namespace {

constexpr ConfigCheck kCheck{"flux"};

}  // namespace

void validate(const TransformerConfig& c) {
  // An order of magnitude above FLUX.1 (12B), and far inside int64.
  kCheck.range("in_channels", c.in_channels, 1, 65536);
  kCheck.range("num_layers", c.num_layers, 0, 1000);
  kCheck.range("num_single_layers", c.num_single_layers, 0, 1000);
  kCheck.range("num_attention_heads", c.num_attention_heads, 1, 1024);
  kCheck.range("attention_head_dim", c.attention_head_dim, 1, 4096);
  kCheck.range("joint_attention_dim", c.joint_attention_dim, 1, 1 << 20);
  kCheck.range("pooled_projection_dim", c.pooled_projection_dim, 1, 1 << 20);
  kCheck.range("num_attention_heads * attention_head_dim", c.dim(), 2, 1 << 17);
  check(c.num_layers + c.num_single_layers > 0,
        "[flux] `num_layers` and `num_single_layers` are both 0 but there must be a block");
  constexpr int64_t kLatents = TransformerConfig::kPatch * TransformerConfig::kPatch;
  check(c.in_channels % kLatents == 0,
        "[flux] `in_channels` is {} but must be a multiple of {}: a token is 2 x 2 latents",
        c.in_channels, kLatents);
  kCheck.range("out_channels", c.out_channels, 1, 65536);
  check(c.out_channels % kLatents == 0 && c.out_channels <= c.in_channels,
        "[flux] `out_channels` is {} but must be a multiple of {}, at most `in_channels`, {}",
        c.out_channels, kLatents, c.in_channels);
  int64_t turned = 0;
  for (const int64_t channels : c.axes_dims_rope) {
    check(channels >= 0 && channels % 2 == 0,
          "[flux] `axes_dims_rope` has {} but its sizes must be even: the rotary embedding turns "
          "pairs",
          channels);
    kCheck.range("axes_dims_rope", channels, 0, c.attention_head_dim);
    turned += channels;
  }
  check(turned == c.attention_head_dim,
        "[flux] `axes_dims_rope` adds up to {} but must make `attention_head_dim`, {}", turned,
        c.attention_head_dim);
}

}  // namespace kinema::flux
