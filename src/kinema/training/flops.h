#pragma once

#include "kinema/core/shape.h"
#include "kinema/networks/network.h"

namespace kinema::training {

/// What a step trains.
enum class Trained { NETWORK, ADAPTER };

/// TFLOPs of one training step per device: three times the forward pass
/// (Architecture::forward_flops), or twice if only adapters have gradients.
///
/// `latents` is [c, f, h, w]; `batch` is the number of samples per device, which may be a fraction.
double training_tflops(const networks::Network& network, const Dims& latents, int64_t text_tokens,
                       double batch, Trained trained = Trained::NETWORK);

/// FLOP/s in a readable unit: 0.103 tera is 103 `GFLOP/s`.
struct FlopRate {
  double value = 0;
  const char* unit = "";  // `TFLOP/s`, `GFLOP/s`, `MFLOP/s`
};
FlopRate flop_rate(double tera_per_second);

}  // namespace kinema::training
