#pragma once

#include "kinema/graph/manual.h"
#include "kinema/nn/flash_attention.h"

/// Attention inside a manual region, on the part of the sequence and of the heads that one device
/// holds.
namespace kinema::nn {

/// Who holds the rest, and how it is reached. Groups of one device do nothing.
struct PartPlan {
  DeviceGroups gather;    // their parts of k and v are put together on each of them
  DeviceGroups exchange;  // they split heads instead of the sequence meanwhile: neighbours
  DeviceGroups ring;      // their parts of k and v go round
  DeviceGroups copies;    // they hold the same k and v
  /// Keys that count, those of all parts together: the first ones.
  int64_t keys;
  /// Groups of heads that are exchanged and computed one after the other.
  int64_t chunks = 1;
  FlashOptions flash;
};

/// q [b, s, n, d], k and v [b, t, n, d] -> y [b, s, n, d] in q's dtype, lse [b, n, s]; sizes are
/// those of parts. n is a multiple of the exchanging devices.
FlashResult part_forward(Tensor q, Tensor k, Tensor v, const PartPlan& plan);

/// What flash_backward gives, for parts; in q's dtype.
FlashGradients part_backward(Tensor q, Tensor k, Tensor v, Tensor lse, Tensor delta, Tensor dy,
                             Tensor y, const PartPlan& plan);

}  // namespace kinema::nn
