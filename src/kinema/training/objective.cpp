#include "kinema/training/objective.h"

namespace kinema::training {

namespace {

/// [b] as [b, 1, 1, ...] of the given rank.
Tensor per_sample(Tensor x, int64_t rank) {
  Dims dims(static_cast<size_t>(rank), 1);
  dims[0] = x.dim(0);
  return reshape(x, dims);
}

/// (target - prediction)^2, times how much its frame counts.
Tensor errors(Tensor prediction, const FlowBatch& flow) {
  const Tensor error = square(flow.target - convert(prediction, DType::F32));
  return flow.counts ? error * flow.counts : error;
}

/// u in [0, 1) to timesteps within the bounds.
Tensor timesteps(Tensor u, const schedulers::FlowMatch& flow, double min_timestep,
                 double max_timestep) {
  if (min_timestep <= 0.0 && max_timestep >= flow.num_train_timesteps) {
    return flow.timestep(u);
  }
  const double low = flow.uniform(min_timestep);
  const double high = flow.uniform(max_timestep);
  // Rounding may lead out of the bounds, to what the other expert is for.
  return minimum(maximum(flow.timestep(low + (high - low) * u), min_timestep), max_timestep);
}

Tensor timesteps(Tensor u, const ObjectiveOptions& options, Tensor expert) {
  const double min = options.min_timestep;
  const double max = options.max_timestep;
  if (!options.boundary) {
    return timesteps(u, options.flow, min, max);
  }
  // Both with their bounds as constants, as a run of the expert alone has them: what a compiler
  // makes of variables may have other bits.
  return select(compare(expert, Comparison::EQ, 0),
                timesteps(u, options.flow, *options.boundary, max),
                timesteps(u, options.flow, min, *options.boundary));
}

}  // namespace

bool gives_first_frames(const ObjectiveOptions& options, const Shape& latents) {
  return options.first_frame > 0.0 && latents.rank() == 5 && latents.dims[2] > 1;
}

Draw draw(Tensor key, Tensor latents, const ObjectiveOptions& options, Tensor expert) {
  const int64_t batch = latents.dim(0);
  Draw drawn;
  // Behind a wall: what reads the noise (input and target) would each draw it again otherwise.
  drawn.noise =
      optimization_barrier({random_normal(fold_in(key, "noise"), latents.shape().dims)})[0];
  Tensor u = random_uniform(fold_in(key, "timestep"), {batch});
  if (options.stratified) {
    u = (iota(latents.graph(), {DType::F32, {batch}}, Axis(0)) + u) *
        (1.0 / static_cast<double>(batch));
  }
  drawn.timestep = timesteps(u, options, expert);
  if (options.weigh) {
    drawn.weight = options.flow.weight(drawn.timestep);
  }
  if (gives_first_frames(options, latents.shape())) {
    drawn.given = compare(random_uniform(fold_in(key, "first_frame"), {batch}), Comparison::LT,
                          options.first_frame);
  }
  return drawn;
}

FlowBatch flow_batch(Tensor latents, Tensor noise, Tensor timestep, const ObjectiveOptions& options,
                     Tensor given) {
  const Tensor x0 = convert(latents, DType::F32);
  const Tensor sigma = per_sample(options.flow.sigma(timestep), x0.rank());
  FlowBatch out{(1.0 - sigma) * x0 + sigma * noise, noise - x0};
  if (given) {
    const int64_t frames = x0.dim(2);
    const Tensor sample = per_sample(given, x0.rank());
    const Tensor number = iota(x0.graph(), {DType::S32, {1, 1, frames, 1, 1}}, Axis(2));
    const Tensor clean = sample & compare(number, Comparison::EQ, 0);
    out.noisy = select(clean, x0, out.noisy);
    const auto scalar = [&](double value) { return constant(x0.graph(), value, {DType::F32, {}}); };
    // The frames behind a given one take over its share.
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
