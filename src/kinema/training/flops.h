#pragma once

#include "kinema/core/shape.h"
#include "kinema/models/wan/config.h"

namespace kinema::training {

/// Tera floating-point operations of one training step on one device, by MaxDiffusion's formula:
/// attention, projections and feed-forward of every block, three times the forward pass (patch
/// embedding, time path, head and CLIP's tokens left out; the text projections counted three times,
/// as there).
///
/// `latents` is [c, f, h, w]; `batch` the samples per device, which may be a fraction.
double training_tflops(const wan::TransformerConfig& config, const Dims& latents,
                       int64_t text_tokens, double batch);

/// Operations a second as people read them: 0.103 tera is 103 `GFLOP/s`.
struct FlopRate {
  double value = 0;
  const char* unit = "";  // `TFLOP/s`, `GFLOP/s`, `MFLOP/s`
};
FlopRate flop_rate(double tera_per_second);

}  // namespace kinema::training
