#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kinema/graph/ops.h"
#include "kinema/schedulers/diffusion.h"
#include "kinema/schedulers/flow_match.h"

/// What networks learn: a rectified flow x_t = (1 - sigma) x0 + sigma noise, of which they predict
/// noise - x0, or a diffusion x_t = sqrt(a) x0 + sqrt(1 - a) noise (schedulers/diffusion.h).
namespace kinema::training {

struct DiffusionObjective {
  schedulers::Diffusion diffusion;
  int64_t num_train_timesteps = 1000;
  /// > 0: samples are weighed by min_snr_weights.
  double snr_gamma = 0.0;
  /// Each channel of each sample gets so much of a normal number of its own on top of the noise.
  double noise_offset = 0.0;
  schedulers::TimestepBias bias = {};
};

struct ObjectiveOptions {
  /// Timesteps from drawn numbers, sigma and weight from timesteps.
  schedulers::FlowMatch flow;
  /// In place of the flow. Bounds and boundaries are of flows.
  std::optional<DiffusionObjective> diffusion = {};
  /// Weigh samples by their timestep; false is the reference's `disable_training_weights`.
  bool weigh = true;
  /// One u in each of b equal parts of [0, 1) instead of b independent ones.
  bool stratified = false;
  /// Probability that a sample is trained with the empty caption's text states.
  double caption_dropout = 0.0;
  /// Timesteps are drawn from here alone: as without bounds, given that they lie in it.
  double min_timestep = 0.0;
  double max_timestep = 1000.0;
  /// Of two experts, where their timesteps are divided: they are drawn from one side of it, which
  /// an input of the step says.
  std::optional<double> boundary = {};
  /// Probability that a sample's first latent frame is given (TI2V): it stays clean and does not
  /// count.
  double first_frame = 0.0;
  /// The guidance scale that networks which take one are told.
  std::optional<double> guidance = {};
};

/// What is drawn for a batch of b samples.
struct Draw {
  Tensor noise;     // F32, shape of the latents
  Tensor timestep;  // F32 [b], 0..1000
  Tensor weight;    // F32 [b]; empty = 1
  Tensor given;     // pred [b]: the first frame is given; empty = none is
};

/// What the network sees and should predict.
struct FlowBatch {
  Tensor noisy;   // F32, shape of the latents
  Tensor target;  // F32, noise - latents; of a diffusion, noise or the velocity
  /// How much each latent frame counts, F32 [b, 1, f, 1, 1] of mean 1 for every sample; empty = all
  /// the same.
  Tensor counts = {};
};

/// The timesteps that a schedule has: 0 to this one. A flow's last is pure noise, a diffusion's the
/// last of its table.
int64_t last_timestep(const ObjectiveOptions& options);

/// Throws an Error where the schedule lacks a timestep; `named_by` says where it comes from.
void check_timestep(int64_t timestep, const ObjectiveOptions& options, const std::string& named_by);

/// Whether first frames are given: not in videos of one latent frame, of which nothing would be
/// left to predict.
bool gives_first_frames(const ObjectiveOptions& options, const Shape& latents);

/// Noise, timesteps and weights for latents [b, ...], a pure function of `key` (u32[2]) and, with a
/// boundary, of `expert` (u32 []: 0 for high noise, 1 for low).
Draw draw(Tensor key, Tensor latents, const ObjectiveOptions& options, Tensor expert = {});

/// noise [b, c, ...] with a number on top for each channel of each sample, [b, c, 1, ...].
Tensor with_offset(Tensor noise, Tensor offsets, double noise_offset);

/// Mixes latents (converted to F32) and noise. Where `given` (pred [b], or empty) holds, the first
/// latent frame is not mixed; latents are then [b, c, f, h, w] with f > 1.
FlowBatch flow_batch(Tensor latents, Tensor noise, Tensor timestep, const ObjectiveOptions& options,
                     Tensor given = {});

/// Mean over all elements that count of weight (target - prediction)^2, in F32 whatever the
/// prediction's dtype.
Tensor flow_loss(Tensor prediction, const FlowBatch& flow, Tensor weight);

/// Mean over the elements of each sample that count of (target - prediction)^2: F32 [b].
Tensor sample_losses(Tensor prediction, const FlowBatch& flow);

/// `text` [b, t, d] with the rows of some samples replaced by `empty` [t, d].
Tensor drop_captions(Tensor key, Tensor text, Tensor empty, double probability);

}  // namespace kinema::training
