#pragma once

#include <span>
#include <vector>

#include "kinema/sample/denoise_step.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::sample {

/// Indices in a step's numbers: the solver's coefficients come first, and first of these the factor
/// of the network's input.
inline constexpr int64_t kInput = 0;
inline constexpr int64_t kTimestep = schedulers::StepCoefficients::kCount;
inline constexpr int64_t kGuidance = kTimestep + 1;
inline constexpr int64_t kRescale = kGuidance + 1;
inline constexpr int64_t kLowWeight = kRescale + 1;
inline constexpr int64_t kHighWeight = kLowWeight + 1;
inline constexpr int64_t kEmbeddedGuidance = kHighWeight + 1;
inline constexpr int64_t kKeptSignal = kEmbeddedGuidance + 1;
inline constexpr int64_t kKeptNoise = kKeptSignal + 1;
inline constexpr int64_t kNormalization = kKeptNoise + 1;
inline constexpr int64_t kNumbers = kNormalization + 1;

/// One of the step's numbers, broadcast for a video.
Tensor number(Tensor numbers, int64_t i);

/// The transformer's inputs in addition to the sample; see StepGraph for the shapes.
struct Given {
  Tensor text = {};
  Tensor pooled = {};
  Tensor size_ids = {};
  std::vector<Tensor> inputs = {};  // of the spec's inputs
  Tensor control_scale = {};
  Tensor image = {};
  Tensor control = {};            // of a controlled step
  std::vector<Tensor> keys = {};  // instead of text and image
  std::vector<Tensor> kept = {};  // from an earlier step, according to the spec's reuse
  Tensor numbers = {};
};

struct Velocity {
  Tensor value;              // after guidance, u + g (c - u), f32 [b, c, f, h, w]
  std::vector<Tensor> kept;  // for later steps, according to the spec's reuse
};

/// The velocity at x, f32 [b, c, f, h, w].
Velocity make_velocity(std::span<const Tensor> params, Tensor x, const Given& given,
                       const StepSpec& spec);

}  // namespace kinema::sample
