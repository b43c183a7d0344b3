#include "kinema/nn/attention_axes.h"

#include <string>
#include <vector>

namespace kinema::nn {
namespace {

AttentionAxes axes_of(const mesh::Placement& place, const std::vector<std::string>& logical) {
  if (!place.active()) {
    return {};
  }
  const Sharding found = place.constraint(logical, Dims(logical.size()));
  return {.mesh = place.mesh().axes,
          .batch = found.dims[0],
          .sequence = found.dims[1],
          .heads = found.dims[2]};
}

}  // namespace

AttentionAxes self_attention_axes(const mesh::Placement& place) {
  return axes_of(place, {"activation_batch", "activation_self_attn_q_length",
                         "activation_self_attn_heads", ""});
}

AttentionAxes cross_attention_axes(const mesh::Placement& place) {
  return axes_of(place, {"activation_batch", "activation_cross_attn_q_length",
                         "activation_cross_attn_heads", ""});
}

}  // namespace kinema::nn
