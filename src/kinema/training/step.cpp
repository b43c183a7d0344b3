#include "kinema/training/step.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/scan.h"
#include "kinema/runtime/array.h"
#include "kinema/training/batch.h"

namespace kinema::training {

namespace {

/// The members that gradient accumulation divides along the first axis.
constexpr std::array kParts = {
    &TrainBatch::latents,      &TrainBatch::text,   &TrainBatch::condition,
    &TrainBatch::image_states, &TrainBatch::pooled, &TrainBatch::size_ids,
    &TrainBatch::guidance,     &TrainBatch::noise,  &TrainBatch::timestep,
    &TrainBatch::weight,       &TrainBatch::given,  &TrainBatch::input_noise,
    &TrainBatch::loss_weights};

std::vector<Tensor> to_list(const TrainBatch& batch) {
  std::vector<Tensor> all;
  for (const auto part : kParts) {
    if (batch.*part) {
      all.push_back(batch.*part);
    }
  }
  return all;
}

/// A batch with the parts of `like`, from a list.
TrainBatch from_list(std::span<const Tensor> all, const TrainBatch& like) {
  TrainBatch out;
  size_t at = 0;
  for (const auto part : kParts) {
    if (like.*part) {
      out.*part = all[at++];
    }
  }
  return out;
}

struct LossAndGradients {
  Tensor loss;
  std::vector<Tensor> gradients;
};

/// The trained weights, in the dtypes of computation.
std::vector<Tensor> trained_specs(std::span<const nn::ParamSpec> specs,
                                  std::span<const Tensor> weights) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].trained) {
      out.push_back(weights[i]);
    }
  }
  return out;
}

LossAndGradients differentiate(const Model& model, std::span<const Tensor> weights,
                               std::span<const nn::ParamSpec> specs, const TrainBatch& part,
                               Tensor dropout_key, const ObjectiveOptions& objective) {
  const Task task = training_task(part, dropout_key, objective);
  const Tensor prediction = model(weights, task.inputs);
  LossAndGradients out;
  out.loss = flow_loss(prediction, task.flow, part.weight);
  out.gradients = gradients(out.loss, trained_specs(specs, weights));
  return out;
}

/// [b, ...] as [parts, b / parts, ...].
Tensor cut(Tensor x, int64_t parts) {
  Dims dims = x.shape().dims;
  dims[0] /= parts;
  dims.insert(dims.begin(), parts);
  return reshape(x, dims);
}

/// The same in a loop over parts, with F32 sums as the carry.
LossAndGradients accumulate(const Model& model, std::span<const Tensor> weights,
                            std::span<const nn::ParamSpec> specs, const TrainBatch& whole,
                            Tensor dropout_key, const StepOptions& options) {
  const int64_t parts = options.accumulation;
  const ObjectiveOptions& objective = options.objective;
  const mesh::Placement& place = options.place;
  Graph& graph = whole.latents.graph();
  std::vector<Tensor> carry{constant(graph, 0.0, {DType::F32, {}})};
  for (const nn::ParamSpec& spec : specs) {
    if (spec.trained) {
      const Tensor zeros = constant(graph, 0.0, {DType::F32, spec.shape.dims});
      carry.push_back(place.active() ? with_sharding(zeros, spec.sharding(place)) : zeros);
    }
  }
  std::vector<Tensor> xs;
  for (const Tensor x : to_list(whole)) {
    // Each part is sharded over all devices; devices do not take different parts.
    xs.push_back(by_sample(cut(x, parts), 1, place));
  }
  const size_t batch_inputs = xs.size();
  xs.push_back(iota(graph, {DType::U32, {parts}}, Axis(0)));

  const auto body = [&](std::span<const Tensor> sums, std::span<const Tensor> x) {
    Graph& inner = x[0].graph();
    std::vector<Tensor> captured;
    for (const Tensor w : weights) {
      captured.push_back(inner.capture(w));
    }
    const Tensor key = fold_in(inner.capture(dropout_key), x[batch_inputs]);
    const LossAndGradients part = differentiate(
        model, captured, specs, from_list(x.first(batch_inputs), whole), key, objective);
    ScanResult next;
    next.carry.push_back(sums[0] + part.loss);
    for (size_t i = 0; i < part.gradients.size(); ++i) {
      next.carry.push_back(sums[i + 1] + convert(part.gradients[i], DType::F32));
    }
    return next;
  };
  const ScanResult done = scan(carry, xs, {.length = parts}, body);

  const double share = 1.0 / static_cast<double>(parts);
  LossAndGradients out;
  out.loss = done.carry[0] * share;
  for (size_t i = 1; i < done.carry.size(); ++i) {
    out.gradients.push_back(done.carry[i] * share);
  }
  return out;
}

StateParts<Tensor> state_inputs(Graph& graph, const StateParts<nn::ParamSpec>& specs,
                                const mesh::Placement& place) {
  const auto list = [&](const std::string& prefix, std::span<const nn::ParamSpec> part) {
    std::vector<Tensor> tensors;
    for (const nn::ParamSpec& spec : part) {
      tensors.push_back(spec.input(graph, place, prefix));
    }
    return tensors;
  };
  StateParts<Tensor> state;
  state.frozen = list("param.", specs.frozen);
  state.trained = list("param.", specs.trained);
  state.mu = list("mu.", specs.mu);
  state.nu = list("nu.", specs.nu);
  state.ema = list("ema.", specs.ema);
  state.counts = specs.counts->input(graph, place);
  return state;
}

/// One of the counts S32 [COUNTS], as a scalar.
Tensor count_of(Tensor counts, Count which) {
  return reshape(slice(counts, Axis(0), which, 1), {});
}

/// `updates`: the number of updates of the average, including this one.
std::vector<Tensor> average(std::span<const nn::ParamSpec> specs, std::span<const Tensor> ema,
                            std::span<const Tensor> params, Tensor updates, const Ema& rule,
                            Tensor ok) {
  const Tensor d = rule.decay_at(convert(updates, DType::F32));
  std::vector<Tensor> out;
  for (size_t i = 0; i < ema.size(); ++i) {
    const auto mixed = [&](std::span<const Tensor> in) -> std::vector<Tensor> {
      const Tensor sum = in[0] * d + convert(in[1], DType::F32) * (1.0 - d);
      return {ok ? select(ok, sum, in[0]) : sum};
    };
    out.push_back(
        optimizers::layer_by_layer(specs.subspan(i, 1), std::vector{ema[i], params[i]}, mixed)[0]);
  }
  return out;
}

/// One number per device.
Tensor stop_input(Graph& graph, const mesh::Placement& place) {
  Sharding sharding{{{}}};
  for (const auto& [axis, size] : place.mesh().axes.axes) {
    if (size > 1) {
      sharding.dims[0].push_back(axis);
    }
  }
  return graph.input({DType::U32, {place.devices()}}, "stop", sharding);
}

void check_batch(const BatchShapes& batch, int64_t parts) {
  check(batch.latents.rank() == 5 && batch.text.rank() == 3 &&
            batch.latents.dims[0] == batch.text.dims[0],
        "[train] latents {} and text {} are not [b, c, f, h, w] and [b, t, d]",
        to_string(batch.latents), to_string(batch.text));
  const Dims& latents = batch.latents.dims;
  for (const ExtraShape& extra : kExtraShapes) {
    const std::optional<Shape>& shape = batch.*extra.shape;
    check(!shape || (shape->dims.size() == extra.rank && shape->dims[0] == latents[0]),
          "[train] {} are {}, expected {} axes, of which the first is {} samples", extra.what,
          shape ? to_string(*shape) : "", extra.rank, latents[0]);
  }
  check(parts >= 1 && batch.latents.dims[0] % parts == 0,
        "[train] a batch of {} does not divide into {} parts of gradient accumulation",
        batch.latents.dims[0], parts);
}

}  // namespace

std::shared_ptr<const optimizers::Optimizer> make_optimizer(const StepOptions& options) {
  switch (options.optimizer) {
    case OptimizerKind::ADAMW:
      return optimizers::adamw(options.adamw, options.optimizer_memory);
    case OptimizerKind::ADAMW8BIT:
      return optimizers::adamw_8bit(options.adamw, options.optimizer_memory);
    case OptimizerKind::ADAFACTOR:
      return optimizers::adafactor(options.adafactor, options.optimizer_memory);
    case OptimizerKind::LION:
      return optimizers::lion(options.lion, options.optimizer_memory);
    case OptimizerKind::LION8BIT:
      return optimizers::lion_8bit(options.lion, options.optimizer_memory);
    case OptimizerKind::CAME:
      return optimizers::came(options.came, options.optimizer_memory);
    case OptimizerKind::PRODIGY:
      return optimizers::prodigy(options.prodigy, options.optimizer_memory);
    case OptimizerKind::SCHEDULE_FREE:
      return optimizers::schedule_free(options.schedule_free, options.optimizer_memory);
    case OptimizerKind::MUON:
      return optimizers::muon(options.muon, options.optimizer_memory);
  }
  fail("[train] unknown optimizer {}", static_cast<int>(options.optimizer));
}

Tensor by_sample(Tensor x, size_t axis, const mesh::Placement& place) {
  if (!place.active()) {
    return x;
  }
  std::vector<std::string> logical(static_cast<size_t>(x.rank()));
  logical[axis] = "activation_batch";
  return with_sharding(x, place.constraint(logical, x.shape().dims));
}

void StepGraph::set_emit(EmitOptions& options) const {
  options.donate = donate;
  options.output_shardings = output_shardings;
  options.host_outputs = host_outputs;
}

StepOptions for_platform(StepOptions step, std::string_view platform) {
  if (!runtime::has_device_memory(platform)) {
    step.optimizer_memory = Memory::DEVICE;
  }
  return step;
}

std::vector<std::string> layer_names(std::span<const nn::ParamSpec> specs) {
  std::vector<std::string> names;
  for (const nn::ParamSpec& spec : specs) {
    const size_t hole = spec.layers > 0 ? spec.name.find("{}") : std::string::npos;
    if (hole == std::string::npos) {
      names.push_back(spec.name);
      continue;
    }
    for (int64_t layer = 0; layer < spec.layers; ++layer) {
      names.push_back(std::string(spec.name).replace(hole, 2, std::to_string(layer)));
    }
  }
  return names;
}

namespace {

/// The trained parameters where gradients are computed.
std::vector<Tensor> trained_points(std::span<const nn::ParamSpec> specs,
                                   const StateParts<Tensor>& state,
                                   const StateParts<nn::ParamSpec>& kept,
                                   const optimizers::Optimizer& optimizer) {
  if (!optimizer.moves_gradients()) {
    return state.trained;
  }
  std::vector<DType> dtypes;
  for (const nn::ParamSpec& spec : training::trained_specs(specs)) {
    dtypes.push_back(spec.shape.dtype);
  }
  return optimizers::gradient_points(
      optimizer, {state.trained, state.mu, state.nu, count_of(*state.counts, OF_MOMENTS)},
      kept.trained, dtypes);
}

/// Copies of the parameters in the dtypes of computation. Gradients have those dtypes, updates F32.
std::vector<Tensor> compute_weights(std::span<const nn::ParamSpec> specs,
                                    std::span<const Tensor> frozen, std::span<const Tensor> trained,
                                    const mesh::Placement& place) {
  std::vector<Tensor> out;
  const auto kept = in_order<Tensor>(specs, frozen, trained);
  for (size_t i = 0; i < specs.size(); ++i) {
    out.push_back(convert(*kept[i], specs[i].shape.dtype));
    // Gradients get the same sharding: each device sums its part. Weights in host memory are read
    // directly.
    if (place.active() && specs[i].memory == Memory::DEVICE) {
      out.back() = with_sharding(out.back(), specs[i].sharding(place));
    }
  }
  return out;
}

/// Adds the updated state to the outputs; each output reuses the buffer of its input.
void add_state_outputs(const StateParts<Tensor>& before, const StateParts<Tensor>& after,
                       const mesh::Placement& place, StepGraph& step) {
  after.each_changed([&](std::span<const Tensor> part) {
    step.outputs.insert(step.outputs.end(), part.begin(), part.end());
  });
  step.state.each_changed([&](std::span<const nn::ParamSpec> part) {
    for (const nn::ParamSpec& spec : part) {
      if (spec.memory != Memory::DEVICE) {
        step.host_outputs.insert(static_cast<int64_t>(step.output_shardings.size()));
      }
      step.output_shardings.push_back(spec.sharding(place));
    }
  });
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    step.donate[static_cast<int64_t>(before.frozen.size() + i)] = static_cast<int64_t>(i);
  }
}

}  // namespace

StepGraph build_step(std::span<const nn::ParamSpec> specs, const Model& model,
                     const BatchShapes& batch, const StepOptions& options) {
  check_batch(batch, options.accumulation);
  StepGraph step;
  step.graph = std::make_unique<Graph>();
  step.specs.assign(specs.begin(), specs.end());
  const std::shared_ptr<const optimizers::Optimizer> optimizer = make_optimizer(options);
  step.state = state_parts(state_specs(specs, options.state), options.ema.is_on(), *optimizer);
  const std::vector<nn::ParamSpec> trained = trained_specs(specs);
  check(!trained.empty(), "[train] none of {} parameters is trained", specs.size());
  for (const nn::ParamSpec& spec : trained) {
    check(spec.memory == Memory::DEVICE,
          "[train] `{}` is trained, but in host memory (weights_memory)\n  that is for frozen "
          "weights "
          "with enable_lora=true; for full training use optimizer_memory=host",
          spec.name);
  }
  step.gradient_names = layer_names(trained);
  Graph& graph = *step.graph;

  const StateParts<Tensor> state = state_inputs(graph, step.state, options.place);
  const Tensor run_key = graph.input({DType::U32, {2}}, "key", options.place.whole({2}));
  const Tensor number = graph.input({DType::U32, {}}, "step");
  const Tensor learning_rate = graph.input({DType::F32, {}}, "learning_rate");
  const Tensor key = fold_in(run_key, number);
  const TrainBatch part = batch_inputs(graph, batch, options, key);
  const Tensor asked = options.exchanges_stop ? stop_input(graph, options.place) : Tensor();

  const std::vector<Tensor> points = trained_points(specs, state, step.state, *optimizer);
  const std::vector<Tensor> weights = compute_weights(specs, state.frozen, points, options.place);
  const Tensor dropout_key = fold_in(key, "dropout");
  const LossAndGradients found =
      options.accumulation == 1
          ? differentiate(model, weights, specs, part, dropout_key, options.objective)
          : accumulate(model, weights, specs, part, dropout_key, options);

  const auto [squares, largest] = optimizers::gradient_sizes(trained, found.gradients);
  const Tensor norm = sqrt(optimizers::total(squares));
  // Not finite if the loss or any gradient is not: infinity and NaN propagate through the sum.
  const Tensor finite =
      is_finite(optimizers::total(concatenate({squares, reshape(found.loss, {1})}, Axis(0))));
  const Tensor ok = options.check_finite ? finite : Tensor();
  const optimizers::OptimizerState next = optimizers::update(
      *optimizer, {state.trained, state.mu, state.nu, count_of(*state.counts, OF_MOMENTS)}, trained,
      found.gradients, norm, learning_rate, options.adamw.limits(), ok,
      optimizers::rate_factors(trained, options.rate_groups));

  const Tensor counted = *state.counts + 1.0;
  StateParts<Tensor> after{.trained = next.params,
                           .mu = next.mu,
                           .nu = next.nu,
                           .counts = ok ? select(ok, counted, *state.counts) : counted};
  if (!state.ema.empty()) {
    after.ema = average(step.state.ema, state.ema, next.params, count_of(counted, OF_AVERAGE),
                        options.ema, ok);
  }
  add_state_outputs(state, after, options.place, step);
  std::vector<Tensor> metrics;
  for (const Tensor value : {found.loss, norm, max(largest), convert(finite, DType::F32)}) {
    metrics.push_back(reshape(value, {1}));
  }
  if (asked) {
    metrics.push_back(reshape(convert(max(asked), DType::F32), {1}));
  }
  if (const std::optional<int64_t> estimate = optimizer->estimate()) {
    metrics.push_back(slice(next.mu[0], Axis(0), *estimate, 1));
    step.has_estimate = true;
  }
  step.outputs.push_back(concatenate(metrics, Axis(0)));
  step.outputs.push_back(squares);
  for (size_t i = step.output_shardings.size(); i < step.outputs.size(); ++i) {
    step.output_shardings.push_back(options.place.whole(step.outputs[i].shape().dims));
  }
  return step;
}

}  // namespace kinema::training
