#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kinema/core/shape.h"
#include "kinema/graph/graph.h"
#include "kinema/kernels/settings.h"

namespace kinema::kernels {

/// A call of `fused("flash_attention")`, or of its backward pass, with one device's shapes.
struct AttentionCall {
  Shape q;       // [b, s, n, d]
  Shape k;       // [b, t, n, d]
  DType result;  // of y, or of dq, dk and dv
  bool backward = false;
  FlashBlockSizes blocks;

  int64_t heads() const { return q.dims[0] * q.dims[2]; }
  int64_t queries() const { return q.dims[1]; }
  int64_t keys() const { return k.dims[1]; }
  int64_t width() const { return q.dims[3]; }
  bool operator==(const AttentionCall&) const = default;
};

/// The attention call of a node; empty for any other node.
std::optional<AttentionCall> attention_call(const Node& node);

/// `forward [1,75600,5,128] x 75600 bf16`
std::string description(const AttentionCall& call);

}  // namespace kinema::kernels
