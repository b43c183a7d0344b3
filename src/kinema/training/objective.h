#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kinema/graph/ops.h"
#include "kinema/schedulers/diffusion.h"
#include "kinema/schedulers/flow_match.h"

/// The training objective: a rectified flow x_t = (1 - sigma) x0 + sigma noise, for which networks
/// predict noise - x0, or a diffusion x_t = sqrt(a) x0 + sqrt(1 - a) noise
/// (schedulers/diffusion.h).
namespace kinema::training {

/// The loss of an element's error e, with kohya's formulas; c may depend on the timestep t.
///
///   l2 e^2,  l1 |e|,  huber 2 c (sqrt(e^2 + c^2) - c),  smooth_l1 2 (sqrt(e^2 + c^2) - c)
///   constant     c scale
///   exponential  c^(t / num_train_timesteps) scale
///   snr          (1 - c) / (1 + sqrt((1 - a) / a))^2 + c, of a diffusion with cumulative alphas a
struct ErrorLoss {
  enum class Kind : uint8_t { L2, L1, HUBER, SMOOTH_L1 };
  enum class Threshold : uint8_t { CONSTANT, EXPONENTIAL, SNR };
  Kind kind = Kind::L2;
  Threshold threshold = Threshold::CONSTANT;
  double c = 0.1;
  double scale = 1.0;

  bool has_threshold() const { return kind == Kind::HUBER || kind == Kind::SMOOTH_L1; }
};

struct DiffusionObjective {
  schedulers::Diffusion diffusion;
  int64_t num_train_timesteps = 1000;
  /// > 0: samples are weighted by min_snr_weights.
  double snr_gamma = 0.0;
  /// Samples are weighted by debiased_weights.
  bool debiased = false;
  /// The standard deviation of an offset that is added to the noise, one per channel and sample.
  double noise_offset = 0.0;
  schedulers::TimestepBias bias = {};
};

struct ObjectiveOptions {
  /// Timesteps from drawn numbers, sigma and weight from timesteps.
  schedulers::FlowMatch flow;
  /// Replaces the flow. Bounds and boundaries are for flows.
  std::optional<DiffusionObjective> diffusion = {};
  /// Weight samples by their timestep; false is the reference's `disable_training_weights`.
  bool weigh = true;
  /// One u in each of b equal parts of [0, 1), instead of b independent ones.
  bool stratified = false;
  /// Probability that a sample is trained with the text states of the empty caption.
  double caption_dropout = 0.0;
  /// Bounds of the drawn timesteps: the distribution is conditioned on them.
  double min_timestep = 0.0;
  double max_timestep = 1000.0;
  /// For two experts, the boundary of their timesteps: an input of the step selects the side.
  std::optional<double> boundary = {};
  /// Probability that a sample's first latent frame is given (TI2V): it has no noise and no weight
  /// in the loss.
  double first_frame = 0.0;
  /// The guidance scale, for networks with takes_guidance.
  std::optional<double> guidance = {};
  ErrorLoss error = {};
  /// The standard deviation of noise that is added to the input's noise, not to the target's.
  double input_perturbation = 0.0;
};

/// The random values of a batch of b samples.
struct Draw {
  Tensor noise;             // F32, shape of the latents
  Tensor timestep;          // F32 [b], 0..1000
  Tensor weight;            // F32 [b]; empty = 1
  Tensor given;             // pred [b]: the first frame is given; empty = never
  Tensor input_noise = {};  // F32, the noise of the input if it has more; empty = noise
};

/// The network's input and target.
struct FlowBatch {
  Tensor noisy;   // F32, shape of the latents
  Tensor target;  // F32, noise - latents; for a diffusion, noise or the velocity
  /// The weight of each latent, which multiplies its loss before the mean: F32 [b, 1, f, 1, 1] or
  /// [b, 1, f, h, w]; empty = 1.
  Tensor counts = {};
  ErrorLoss::Kind error = ErrorLoss::Kind::L2;
  Tensor threshold = {};  // c of ErrorLoss, F32 [b, 1, ...]; empty without one
};

/// The last timestep of the schedule, whose first is 0. A flow's last is pure noise, a diffusion's
/// the last of its table.
int64_t last_timestep(const ObjectiveOptions& options);

/// Throws an Error if the schedule lacks a timestep; `named_by` is the timestep's source.
void check_timestep(int64_t timestep, const ObjectiveOptions& options, const std::string& named_by);

/// True if first frames are given: not for videos of one latent frame, which would have nothing to
/// predict.
bool draws_first_frames(const ObjectiveOptions& options, const Shape& latents);

/// Noise, timesteps and weights for latents [b, ...], a pure function of `key` (u32[2]) and, with a
/// boundary, of `expert` (u32 []: 0 for high noise, 1 for low).
Draw draw(Tensor key, Tensor latents, const ObjectiveOptions& options, Tensor expert = {});

/// noise [b, c, ...] plus `offsets` [b, c, 1, ...] times noise_offset.
Tensor with_offset(Tensor noise, Tensor offsets, double noise_offset);

/// Mixes latents (converted to F32) and noise. If `given` (pred [b], or empty) is true, the first
/// latent frame stays clean; latents are then [b, c, f, h, w] with f > 1. `input_noise` replaces
/// the noise in the input.
FlowBatch flow_batch(Tensor latents, Tensor noise, Tensor timestep, const ObjectiveOptions& options,
                     Tensor given = {}, Tensor input_noise = {});

/// The weighted mean of the losses (ErrorLoss) of target - prediction over all elements, in F32 for
/// any dtype of the prediction.
Tensor flow_loss(Tensor prediction, const FlowBatch& flow, Tensor weight);

/// The mean of these losses over each sample's elements: F32 [b].
Tensor sample_losses(Tensor prediction, const FlowBatch& flow);

/// `text` [b, t, d] with the rows of random samples replaced by `empty` [t, d].
Tensor drop_captions(Tensor key, Tensor text, Tensor empty, double probability);

}  // namespace kinema::training
