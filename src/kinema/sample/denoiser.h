#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/runtime/array.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/sample/experts.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::sample {

/// One batch of videos to denoise.
struct DenoiseBatch {
  HostArray latents;        // f32 [b, c, f, h, w], noise at the first sigma
  HostArray text;           // f32 [b, t, d]
  HostArray negative_text;  // the same shape; not read without guidance
  // Of networks with pooled_dim and size_ids, f32 [b, n]; the negative ones as above.
  HostArray pooled, negative_pooled;
  HostArray size_ids, negative_size_ids;
  Condition condition_kind = Condition::NONE;
  HostArray condition;  // f32, see model_input; no bytes for NONE
  HostArray image;      // f32 [b, n, image_dim] of CLIP; no bytes where the model takes none
};

struct DenoiseSettings {
  schedulers::Schedule schedule;
  /// For the only transformer, or the expert for high noise. 1 or less: no guidance at all.
  double guidance_scale = 5.0;
  /// For the expert for low noise, where there is guidance.
  double guidance_scale_2 = 5.0;
  /// What networks that take guidance are told.
  double embedded_guidance = 0.0;
  /// 0: none. See StepSpec::rescale.
  double guidance_rescale = 0.0;
  bool two_passes = false;
  ReuseSettings reuse;
};

/// The guidance scale of expert 0 or 1.
double guidance_scale_of(const DenoiseSettings& settings, int64_t expert);

/// Whether the expert's prediction is u + g (c - u). As in diffusers, guidance_scale alone decides
/// whether there is guidance; then an expert goes without the negative prompt only where its g is
/// 1, which gives c.
bool is_guided(const DenoiseSettings& settings, int64_t expert);

/// What an observer is told after a step.
struct DenoiseStep {
  int64_t batch = 0;  // index of the DenoiseBatch
  int64_t index = 0;  // of the step, from 0
  int64_t done = 0;   // steps of all batches done, this one included
  int64_t total = 0;  // steps of all batches
  float timestep = 0;
  std::string expert;                  // `transformer` or `transformer_2`
  const runtime::Array& latents;       // after the step, f32 [b, c, f, h, w]
  const runtime::Array& model_output;  // velocity after guidance
  Reuse reuse = Reuse::NOTHING;        // BLOCKS, BRANCH, VELOCITY: less was computed
};
using DenoiseObserver = std::function<void(const DenoiseStep&)>;

/// Denoises batches; latents stay on the devices. With two experts that do not both fit in memory,
/// all batches go through the first before the second is loaded. Returns f32 [b, c, f, h, w] each.
///
/// Throws an Error when a shape does not fit the model, and at the first step after which a value
/// is not finite.
std::vector<HostArray> denoise(Experts& experts, StepPrograms& programs,
                               std::span<const DenoiseBatch> batches,
                               const DenoiseSettings& settings,
                               const DenoiseObserver& observer = {});

/// The whole step that `denoise` runs for a batch with an expert; steps that reuse differ in
/// `reuse` alone, and take less.
StepSpec step_spec(const Experts& experts, int64_t expert, const DenoiseBatch& batch,
                   const DenoiseSettings& settings);

}  // namespace kinema::sample
