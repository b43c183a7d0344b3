#pragma once

#include "kinema/mesh/placement.h"
#include "kinema/nn/attention.h"

namespace kinema::nn {

/// How the devices of a mesh split self-attention's queries [b, s, n, d / n], by the logical axes
/// `activation_batch`, `activation_self_attn_q_length` and `activation_self_attn_heads`; keys and
/// values follow.
AttentionAxes self_attention_axes(const mesh::Placement& place);
/// The same for attention across to text and images, `activation_cross_attn_...`.
AttentionAxes cross_attention_axes(const mesh::Placement& place);

}  // namespace kinema::nn
