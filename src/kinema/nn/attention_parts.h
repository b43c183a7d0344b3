#pragma once

#include "kinema/graph/manual.h"
#include "kinema/nn/flash_attention.h"

/// Attention inside a manual region: on one device's part of the sequence and of the heads.
namespace kinema::nn {

/// The devices that hold the other parts, by how they communicate. Groups of one device do nothing.
struct PartPlan {
  DeviceGroups gather;    // their parts of k and v are gathered on each of them
  DeviceGroups exchange;  // neighbours that exchange the sequence for heads meanwhile
  DeviceGroups ring;      // their parts of k and v are passed around
  DeviceGroups copies;    // they hold the same k and v
  /// Keys that are not padding, of all parts together: the first `keys`.
  int64_t keys;
  /// Groups of heads that are exchanged and computed one after the other.
  int64_t chunks = 1;
  FlashOptions flash;
};

/// q [b, s, n, d], k and v [b, t, n, d] -> y [b, s, n, d] in q's dtype, lse [b, n, s]; all are one
/// device's parts. n is a multiple of the number of exchanging devices.
FlashResult part_forward(Tensor q, Tensor k, Tensor v, const PartPlan& plan);

/// The gradients of flash_backward for one device's parts; in q's dtype.
FlashGradients part_backward(Tensor q, Tensor k, Tensor v, Tensor lse, Tensor delta, Tensor dy,
                             Tensor y, const PartPlan& plan);

}  // namespace kinema::nn
