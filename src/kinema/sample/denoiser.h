#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/runtime/array.h"
#include "kinema/sample/control.h"
#include "kinema/sample/denoise_step.h"
#include "kinema/sample/experts.h"
#include "kinema/schedulers/schedule.h"

namespace kinema::sample {

/// The texts of a batch from a step on, in the same shapes as the batch's.
struct DenoiseText {
  int64_t first_step = 0;
  HostArray text, negative_text;
  HostArray pooled, negative_pooled;
};

/// One batch of videos to denoise.
struct DenoiseBatch {
  HostArray latents;        // f32 [b, c, f, h, w], noise at the first sigma
  HostArray text;           // f32 [b, t, d]
  HostArray negative_text;  // the same shape; not read without guidance
  // Of networks with pooled_dim and size_ids, f32 [b, n]; the negative ones are not read without
  // guidance.
  HostArray pooled, negative_pooled;
  HostArray size_ids, negative_size_ids;
  /// The values of a named input, f32 [b, channels, f', h', w'].
  struct Named {
    StepInput step;
    HostArray value;
  };
  std::vector<Named> inputs = {};
  // To put back the kept part of given frames after each step, see StepGraph; no bytes: nothing is
  // kept.
  HostArray clean, clean_noise, mask;
  HostArray image;  // f32 [b, n, image_dim] of CLIP; no bytes if the model has no such input
  /// Texts that replace the batch's at later steps, in order.
  std::vector<DenoiseText> later_texts = {};
  /// The videos' indices, on which the noise of stochastic samplers depends; one for each video.
  std::vector<int64_t> indices;
};

struct DenoiseSettings {
  schedulers::Schedule schedule;
  /// For the only transformer, or the high-noise expert. At most 1: no guidance.
  double guidance_scale = 5.0;
  /// For the low-noise expert, if there is guidance.
  double guidance_scale_2 = 5.0;
  /// The guidance scale as an input of networks with takes_guidance.
  double embedded_guidance = 0.0;
  /// 0: off. See StepSpec::rescale.
  double guidance_rescale = 0.0;
  /// 0: off. See StepSpec::normalizes.
  double guidance_normalization = 0.0;
  /// Steps at which 1 - t / 1000 is above it have no guidance; from 1 on all have.
  double guidance_truncation = 1.0;
  /// See networks::Inputs.
  bool text_fills = false;
  bool two_passes = false;
  /// Of a control branch's results, or of what ControlNets add: one for each of control_layers.
  std::vector<ControlScale> control = {};
  bool guess_mode = false;  // GivenFiles::guess_mode
  ReuseSettings reuse;
  uint64_t seed = 0;  // of the noise of stochastic samplers
};

/// The guidance scale of expert 0 or 1.
double guidance_scale_of(const DenoiseSettings& settings, int64_t expert);

/// True if the expert's prediction is u + g (c - u). As in diffusers, guidance_scale alone turns
/// guidance on; then an expert skips the negative prompt only if its g is 1, for which the result
/// is c.
bool is_guided(const DenoiseSettings& settings, int64_t expert);

/// What an observer receives after a step.
struct DenoiseStep {
  int64_t batch = 0;  // index of the DenoiseBatch
  int64_t index = 0;  // of the step, from 0
  int64_t done = 0;   // completed steps of all batches, including this one
  int64_t total = 0;  // steps of all batches
  float timestep = 0;
  std::string expert;                  // `transformer` or `transformer_2`
  const runtime::Array& latents;       // after the step, f32 [b, c, f, h, w]
  const runtime::Array& prediction;    // of the noiseless latents, in the same shape
  const runtime::Array& model_output;  // velocity after guidance
  Reuse reuse = Reuse::NOTHING;        // BLOCKS, BRANCH, VELOCITY: a part was reused
};
using DenoiseObserver = std::function<void(const DenoiseStep&)>;

/// Denoises batches; latents stay on the devices. If two experts do not fit in memory together, all
/// batches run through the first before the second is loaded. Returns f32 [b, c, f, h, w] per
/// batch.
///
/// Throws an Error if a shape does not fit the model, and after the first step with a non-finite
/// value.
std::vector<HostArray> denoise(Experts& experts, StepPrograms& programs,
                               std::span<const DenoiseBatch> batches,
                               const DenoiseSettings& settings,
                               const DenoiseObserver& observer = {});

/// The spec of a full step in `denoise` for a batch and an expert; steps that reuse results, or in
/// which ControlNets add nothing, differ only in that, and need less memory.
StepSpec step_spec(const Experts& experts, int64_t expert, const DenoiseBatch& batch,
                   const DenoiseSettings& settings);

}  // namespace kinema::sample
