#pragma once

#include "kinema/mesh/placement.h"
#include "kinema/nn/attention.h"

namespace kinema::nn {

/// Mesh axes that shard self-attention's queries [b, s, n, d / n], from the logical axes
/// `activation_batch`, `activation_self_attn_q_length` and `activation_self_attn_heads`; keys and
/// values use the same.
AttentionAxes self_attention_axes(const mesh::Placement& place);
/// The same for cross-attention to text and images, from `activation_cross_attn_...`.
AttentionAxes cross_attention_axes(const mesh::Placement& place);

}  // namespace kinema::nn
