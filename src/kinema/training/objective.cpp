#include "kinema/training/objective.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "kinema/core/error.h"

namespace kinema::training {

namespace {

/// [b] as [b, 1, 1, ...] of the given rank.
Tensor per_sample(Tensor x, int64_t rank) {
  Dims dims(static_cast<size_t>(rank), 1);
  dims[0] = x.dim(0);
  return reshape(x, dims);
}

/// The loss of each element.
Tensor element_losses(Tensor difference, const FlowBatch& flow) {
  switch (flow.error) {
    case ErrorLoss::Kind::L2:
      return square(difference);
    case ErrorLoss::Kind::L1:
      return abs(difference);
    case ErrorLoss::Kind::HUBER:
    case ErrorLoss::Kind::SMOOTH_L1:
      break;
  }
  const Tensor c = flow.threshold;
  const Tensor smooth = 2.0 * (sqrt(square(difference) + square(c)) - c);
  return flow.error == ErrorLoss::Kind::HUBER ? c * smooth : smooth;
}

/// The same, times the frame's weight.
Tensor errors(Tensor prediction, const FlowBatch& flow) {
  const Tensor error = element_losses(flow.target - convert(prediction, DType::F32), flow);
  return flow.counts ? error * flow.counts : error;
}

/// A table's entries at integer timesteps [b]. Not a gather: XLA's CPU compiler aborts if its
/// indices are partitioned (jaxlib 0.8.2, "Non-simplified HLO Gather").
Tensor at_timesteps(const std::vector<float>& table, Tensor timestep) {
  Graph& graph = timestep.graph();
  const auto size = static_cast<int64_t>(table.size());
  std::vector<float> numbers(table.size());
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  const Dims all{timestep.dim(0), size};
  const auto repeated = [&](const std::vector<float>& values) {
    return broadcast_to(constant_f32(graph, {1, size}, values), all);
  };
  const Tensor wanted = broadcast_to(expand_dims(timestep, Axis(1)), all);
  const Tensor hit = compare(repeated(numbers), Comparison::EQ, wanted);
  return sum(select(hit, repeated(table), constant(graph, 0.0, {DType::F32, all})), {1});
}

/// Timesteps of a diffusion for u in [0, 1): integers with the probabilities of the objective.
Tensor diffusion_timesteps(Tensor u, const DiffusionObjective& objective) {
  const auto n = static_cast<double>(objective.num_train_timesteps);
  if (objective.bias.strategy == schedulers::TimestepBias::Strategy::NONE) {
    return minimum(floor(u * n), n - 1.0);
  }
  // The number of cumulative probabilities that are at most u.
  std::vector<float> cumulative;
  double total = 0.0;
  for (const double each :
       schedulers::timestep_probabilities(objective.bias, objective.num_train_timesteps)) {
    total += each;
    cumulative.push_back(static_cast<float>(total));
  }
  const Tensor steps =
      constant_f32(u.graph(), {1, static_cast<int64_t>(cumulative.size())}, cumulative);
  const Tensor passed = compare(expand_dims(u, Axis(1)), Comparison::GE, steps);
  return minimum(sum(convert(passed, DType::F32), {1}), n - 1.0);
}

/// c of ErrorLoss, F32 [b].
Tensor threshold_at(Tensor timestep, const ObjectiveOptions& options) {
  const ErrorLoss& loss = options.error;
  switch (loss.threshold) {
    case ErrorLoss::Threshold::CONSTANT:
      return ones_like(timestep) * (loss.c * loss.scale);
    case ErrorLoss::Threshold::EXPONENTIAL: {
      const double steps = options.diffusion
                               ? static_cast<double>(options.diffusion->num_train_timesteps)
                               : options.flow.num_train_timesteps;
      return exp(timestep * (std::log(loss.c) / steps)) * loss.scale;
    }
    case ErrorLoss::Threshold::SNR:
      break;
  }
  check(options.diffusion.has_value(),
        "[train] a threshold of the loss by signal-to-noise ratios is for diffusions");
  std::vector<float> table;
  for (const float a : schedulers::alphas_cumprod(options.diffusion->diffusion,
                                                  options.diffusion->num_train_timesteps)) {
    const double alpha = a;
    // Without a signal sigma is infinite, and the threshold c.
    const double sigma = std::sqrt((1.0 - alpha) / alpha);
    table.push_back(static_cast<float>((1.0 - loss.c) / ((1.0 + sigma) * (1.0 + sigma)) + loss.c));
  }
  return at_timesteps(table, timestep);
}

/// The product of the weights that the objective has; empty without any.
Tensor diffusion_weight(Tensor timestep, const DiffusionObjective& objective) {
  const auto alphas =
      schedulers::alphas_cumprod(objective.diffusion, objective.num_train_timesteps);
  const schedulers::Prediction prediction = objective.diffusion.prediction_type;
  Tensor out;
  if (objective.snr_gamma > 0.0) {
    out = at_timesteps(schedulers::min_snr_weights(alphas, objective.snr_gamma, prediction),
                       timestep);
  }
  if (objective.debiased) {
    const Tensor debiased =
        at_timesteps(schedulers::debiased_weights(alphas, prediction), timestep);
    out = out ? out * debiased : debiased;
  }
  return out;
}

Draw diffusion_draw(Tensor key, Tensor u, Tensor noise, const DiffusionObjective& objective) {
  Draw drawn{.noise = noise};
  if (objective.noise_offset != 0.0) {
    Dims dims(noise.shape().dims.size(), 1);
    dims[0] = noise.dim(0);
    dims[1] = noise.dim(1);
    drawn.noise = with_offset(noise, random_normal(fold_in(key, "noise_offset"), dims),
                              objective.noise_offset);
  }
  drawn.timestep = diffusion_timesteps(u, objective);
  drawn.weight = diffusion_weight(drawn.timestep, objective);
  return drawn;
}

FlowBatch diffusion_batch(Tensor x0, Tensor noise, Tensor input_noise, Tensor timestep,
                          const DiffusionObjective& objective) {
  std::vector<float> signal;
  std::vector<float> rest;
  for (const float a :
       schedulers::alphas_cumprod(objective.diffusion, objective.num_train_timesteps)) {
    signal.push_back(std::sqrt(a));
    rest.push_back(std::sqrt(1.0F - a));
  }
  const Tensor s = per_sample(at_timesteps(signal, timestep), x0.rank());
  const Tensor r = per_sample(at_timesteps(rest, timestep), x0.rank());
  const bool epsilon = objective.diffusion.prediction_type == schedulers::Prediction::EPSILON;
  return {.noisy = s * x0 + r * input_noise, .target = epsilon ? noise : s * noise - r * x0};
}

/// Timesteps within the bounds, from u in [0, 1).
Tensor timesteps(Tensor u, const schedulers::FlowMatch& flow, double min_timestep,
                 double max_timestep) {
  if (min_timestep <= 0.0 && max_timestep >= flow.num_train_timesteps) {
    return flow.timestep(flow.level(flow.density_of(u)));
  }
  check(flow.density == schedulers::Density::UNIFORM,
        "[train] bounds of timesteps need a uniform density (weighting_scheme)");
  const double low = flow.uniform(min_timestep);
  const double high = flow.uniform(max_timestep);
  const Tensor within = low + (high - low) * u;
  const Tensor level = flow.levels > 0 ? flow.level(1.0 - within) : within;
  // Rounding may exceed the bounds, into the other expert's timesteps.
  return minimum(maximum(flow.timestep(level), min_timestep), max_timestep);
}

Tensor timesteps(Tensor u, const ObjectiveOptions& options, Tensor expert) {
  const double min = options.min_timestep;
  const double max = options.max_timestep;
  if (!options.boundary) {
    return timesteps(u, options.flow, min, max);
  }
  // Both are computed with constant bounds, as in a run of one expert: with variables, the compiled
  // code may give other bits.
  return select(compare(expert, Comparison::EQ, 0),
                timesteps(u, options.flow, *options.boundary, max),
                timesteps(u, options.flow, min, *options.boundary));
}

}  // namespace

Tensor with_offset(Tensor noise, Tensor offsets, double noise_offset) {
  return noise + noise_offset * offsets;
}

int64_t last_timestep(const ObjectiveOptions& options) {
  return options.diffusion ? options.diffusion->num_train_timesteps - 1
                           : static_cast<int64_t>(options.flow.num_train_timesteps);
}

void check_timestep(int64_t timestep, const ObjectiveOptions& options,
                    const std::string& named_by) {
  check(timestep >= 0 && timestep <= last_timestep(options),
        "[evaluation] {} has timestep {}, but the schedule of the model has 0 to {}", named_by,
        timestep, last_timestep(options));
}

bool draws_first_frames(const ObjectiveOptions& options, const Shape& latents) {
  return options.first_frame > 0.0 && latents.rank() == 5 && latents.dims[2] > 1;
}

namespace {

/// Without the input's noise.
Draw draw_plain(Tensor key, Tensor latents, const ObjectiveOptions& options, Tensor expert) {
  const int64_t batch = latents.dim(0);
  Draw drawn;
  // A barrier, because input and target would otherwise each draw the noise again.
  drawn.noise =
      optimization_barrier({random_normal(fold_in(key, "noise"), latents.shape().dims)})[0];
  Tensor u = random_uniform(fold_in(key, "timestep"), {batch});
  if (options.stratified) {
    u = (iota(latents.graph(), {DType::F32, {batch}}, Axis(0)) + u) *
        (1.0 / static_cast<double>(batch));
  }
  if (options.diffusion) {
    return diffusion_draw(key, u, drawn.noise, *options.diffusion);
  }
  if (options.flow.density == schedulers::Density::LOGIT_NORMAL) {
    u = options.stratified ? schedulers::normal_quantile(u)
                           : random_normal(fold_in(key, "timestep"), {batch});
  }
  drawn.timestep = timesteps(u, options, expert);
  if (options.weigh) {
    drawn.weight = options.flow.weight(drawn.timestep);
  }
  if (draws_first_frames(options, latents.shape())) {
    drawn.given = compare(random_uniform(fold_in(key, "first_frame"), {batch}), Comparison::LT,
                          options.first_frame);
  }
  return drawn;
}

}  // namespace

Draw draw(Tensor key, Tensor latents, const ObjectiveOptions& options, Tensor expert) {
  Draw out = draw_plain(key, latents, options, expert);
  if (options.input_perturbation > 0.0) {
    const Tensor more = random_normal(fold_in(key, "input_perturbation"), latents.shape().dims);
    out.input_noise = optimization_barrier({out.noise + options.input_perturbation * more})[0];
  }
  return out;
}

FlowBatch flow_batch(Tensor latents, Tensor noise, Tensor timestep, const ObjectiveOptions& options,
                     Tensor given, Tensor input_noise) {
  const Tensor x0 = convert(latents, DType::F32);
  const Tensor in = input_noise ? input_noise : noise;
  FlowBatch out;
  if (options.diffusion) {
    out = diffusion_batch(x0, noise, in, timestep, *options.diffusion);
  } else {
    const Tensor sigma = per_sample(options.flow.sigma(timestep), x0.rank());
    out = {(1.0 - sigma) * x0 + sigma * in, noise - x0};
  }
  out.error = options.error.kind;
  if (options.error.has_threshold()) {
    out.threshold = per_sample(threshold_at(timestep, options), x0.rank());
  }
  if (given && !options.diffusion) {
    const int64_t frames = x0.dim(2);
    const Tensor sample = per_sample(given, x0.rank());
    const Tensor number = iota(x0.graph(), {DType::S32, {1, 1, frames, 1, 1}}, Axis(2));
    const Tensor clean = sample & compare(number, Comparison::EQ, 0);
    out.noisy = select(clean, x0, out.noisy);
    const auto scalar = [&](double value) { return constant(x0.graph(), value, {DType::F32, {}}); };
    // The other frames of a sample with a given first frame get its share of the weight.
    const auto f = static_cast<double>(frames);
    const Tensor others = select(sample, scalar(f / (f - 1.0)), scalar(1.0));
    out.counts = select(clean, scalar(0.0), others);
  }
  return out;
}

Tensor flow_loss(Tensor prediction, const FlowBatch& flow, Tensor weight) {
  Tensor error = errors(prediction, flow);
  if (weight) {
    error = error * per_sample(weight, error.rank());
  }
  return mean(error);
}

Tensor sample_losses(Tensor prediction, const FlowBatch& flow) {
  const Tensor error = errors(prediction, flow);
  std::vector<int64_t> axes;
  for (int64_t axis = 1; axis < error.rank(); ++axis) {
    axes.push_back(axis);
  }
  return mean(error, axes);
}

Tensor drop_captions(Tensor key, Tensor text, Tensor empty, double probability) {
  const Tensor u = random_uniform(fold_in(key, "caption_dropout"), {text.dim(0)});
  const Tensor dropped = compare(per_sample(u, text.rank()), Comparison::LT, probability);
  return select(dropped, expand_dims(convert(empty, text.dtype()), Axis(0)), text);
}

}  // namespace kinema::training
