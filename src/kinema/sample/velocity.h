#pragma once

#include <span>
#include <vector>

#include "kinema/sample/denoise_step.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::sample {

/// Places in a step's table of numbers; the solver's coefficients stand first, and among them the
/// factor of what the network sees.
inline constexpr int64_t kInput = 0;
inline constexpr int64_t kTimestep = schedulers::StepCoefficients::kCount;
inline constexpr int64_t kGuidance = kTimestep + 1;
inline constexpr int64_t kRescale = kGuidance + 1;
inline constexpr int64_t kLowWeight = kRescale + 1;
inline constexpr int64_t kHighWeight = kLowWeight + 1;
inline constexpr int64_t kEmbeddedGuidance = kHighWeight + 1;
inline constexpr int64_t kNumbers = kEmbeddedGuidance + 1;

/// One of the step's numbers, ready to scale a video.
Tensor number(Tensor numbers, int64_t i);

/// What the transformer is told beside the sample; see StepGraph for the shapes.
struct Given {
  Tensor text = {};
  Tensor pooled = {};
  Tensor size_ids = {};
  Tensor condition = {};
  Tensor image = {};
  std::vector<Tensor> keys = {};  // in place of text and image
  std::vector<Tensor> kept = {};  // of an earlier step, as the spec's reuse says
  Tensor numbers = {};
};

struct Velocity {
  Tensor value;              // after guidance, u + g (c - u), f32 [b, c, f, h, w]
  std::vector<Tensor> kept;  // for later steps, as the spec's reuse says
};

/// The velocity at x, f32 [b, c, f, h, w].
Velocity make_velocity(std::span<const Tensor> params, Tensor x, const Given& given,
                       const StepSpec& spec);

}  // namespace kinema::sample
