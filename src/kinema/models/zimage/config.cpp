#include "kinema/models/zimage/config.h"

#include <cmath>

#include "kinema/core/error.h"
#include "kinema/models/config_check.h"

namespace kinema::zimage {
namespace {

constexpr ConfigCheck kCheck{"zimage"};

}  // namespace

void validate(const TransformerConfig& c) {
  // An order of magnitude above the released model (6B), and far inside int64.
  kCheck.range("in_channels", c.in_channels, 1, 65536);
  kCheck.range("dim", c.dim, 2, 1 << 17);
  kCheck.range("n_layers", c.n_layers, 1, 1000);
  kCheck.range("n_refiner_layers", c.n_refiner_layers, 0, 1000);
  kCheck.range("n_heads", c.n_heads, 1, 1024);
  kCheck.range("cap_feat_dim", c.cap_feat_dim, 1, 1 << 20);
  kCheck.epsilon("norm_eps", c.norm_eps);
  check(std::isfinite(c.rope_theta) && c.rope_theta >= 1.0 && c.rope_theta <= 1e12,
        "[zimage] `rope_theta` is {} but must be from 1 to 1e12", c.rope_theta);
  check(std::isfinite(c.t_scale) && c.t_scale > 0.0 && c.t_scale <= 1e6,
        "[zimage] `t_scale` is {} but must be from 0 to 1e6", c.t_scale);
  check(c.dim % c.n_heads == 0, "[zimage] `dim` is {} but must be a multiple of `n_heads`, {}",
        c.dim, c.n_heads);
  int64_t turned = 0;
  for (const int64_t channels : c.axes_dims) {
    kCheck.range("axes_dims", channels, 0, c.head_dim());
    check(channels % 2 == 0,
          "[zimage] `axes_dims` has {} but its sizes must be even: the rotary embedding turns "
          "pairs",
          channels);
    turned += channels;
  }
  check(turned == c.head_dim(),
        "[zimage] `axes_dims` adds up to {} but must make the channels of a head, {}", turned,
        c.head_dim());
  for (const int64_t positions : c.axes_lens) {
    kCheck.range("axes_lens", positions, 1, 1 << 20);
  }
}

}  // namespace kinema::zimage
