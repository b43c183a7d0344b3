#include "kinema/training/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/threefry.h"
#include "kinema/graph/ops.h"
#include "kinema/pjrt/transfers.h"
#include "kinema/training/batch.h"

namespace kinema::training {
namespace {

/// Inputs: params..., then those of a batch as in StepGraph with given_draw. Output: losses F32
/// [b], each times its weight.
runtime::Program compile(const runtime::Devices& devices, std::span<const nn::ParamSpec> specs,
                         const Model& model, const BatchShapes& batch, StepOptions step,
                         runtime::ProgramOptions how) {
  step.place = devices.placement();
  step.given_draw = true;
  step.objective.caption_dropout = 0;
  step.objective.error = {};  // comparable between runs
  Graph graph;
  std::vector<Tensor> weights;
  for (const nn::ParamSpec& spec : state_specs(specs, step.state)) {
    weights.push_back(spec.input(graph, devices.placement(), "param."));
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    weights[i] = convert(weights[i], specs[i].shape.dtype);
  }
  const TrainBatch part = batch_inputs(graph, batch, step, Tensor());
  const Task task = training_task(part, Tensor(), step.objective);
  const Tensor prediction = model(weights, task.inputs);
  const Tensor losses = sample_losses(prediction, task.flow) * part.weight;
  how.name = "evaluation";
  how.saved.clear();  // `saved` is for the training step
  how.emit.output_shardings = {devices.placement().whole(losses.shape().dims)};
  split_over(devices, how);
  return runtime::Program::compile(devices.client(), graph, std::vector{losses}, how);
}

/// Whether the first frame of a sample is given: always the same for a sample.
float first_frame_of(double probability, uint64_t seed, int64_t number) {
  RandomStream random(random_key(seed, "evaluation first frame", static_cast<uint64_t>(number)));
  return static_cast<double>(random.uniform()) < probability ? 1.0F : 0.0F;
}

HostArray noise_of(const Shape& latents, uint64_t seed, int64_t number) {
  HostArray out(Shape{DType::F32, latents.dims});
  RandomStream random(random_key(seed, "evaluation noise", static_cast<uint64_t>(number)));
  for (float& x : out.as<float>()) {
    x = random.normal();
  }
  return out;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value;
  }
  return sum / static_cast<double>(values.size());
}

/// The timestep at which a sample is evaluated, if any; `told`: the sample's own. Throws an Error
/// if the schedule lacks it.
std::optional<int64_t> timestep_of(std::optional<int64_t> told, int64_t r,
                                   const EvaluationOptions& options,
                                   const ObjectiveOptions& objective) {
  const int64_t timestep = told ? *told : shared_timestep(options, r);
  if (told || timestep >= 0) {
    check_timestep(timestep, objective, told ? fmt::format("record {}", r) : "timesteps_list");
  }
  const auto t = static_cast<double>(timestep);
  const bool trained = t >= objective.min_timestep && t <= objective.max_timestep;
  return timestep >= 0 && trained ? std::optional(timestep) : std::nullopt;
}

}  // namespace

int64_t shared_timestep(const EvaluationOptions& options, int64_t r) {
  const size_t kinds = options.timesteps.size();
  return kinds > 0 && r < options.samples ? options.timesteps[static_cast<size_t>(r) % kinds] : -1;
}

void check_timesteps(const EvaluationOptions& options, const ObjectiveOptions& objective) {
  for (const int64_t timestep : options.timesteps) {
    check_timestep(timestep, objective, "timesteps_list");
  }
}

void check_evaluation(const EvaluationOptions& options, const ObjectiveOptions& objective,
                      const data::Source& source) {
  bool some = false;
  for (int64_t r = 0; r < source.size(); ++r) {
    const std::optional<int64_t> told = source.at(r).timestep;
    if (!told && r == 0) {
      check_timesteps(options, objective);
    }
    some = timestep_of(told, r, options, objective).has_value() || some;
    if (some && !told) {
      break;  // the other samples have none either
    }
  }
  check(some,
        "[evaluation] none of {} samples is evaluated: timesteps must be from {:g} to {:g}, {}\n  "
        "set timesteps_list, or use records with such timesteps",
        source.size(), objective.min_timestep, objective.max_timestep,
        options.timesteps.empty() ? "and timesteps_list is empty"
                                  : fmt::format("and num_eval_samples is {}", options.samples));
}

/// A sample of the evaluation.
struct Evaluator::Chosen {
  std::optional<data::Sample> sample;  // if it was read already
  int64_t number;                      // index in the set
  int64_t timestep;
};

Evaluator::Evaluator(const runtime::Devices& devices, std::span<const nn::ParamSpec> specs,
                     const Model& model, const BatchShapes& batch, StepOptions step,
                     EvaluationOptions options)
    : devices_(devices),
      batch_(batch),
      objective_(step.objective),
      options_(std::move(options)),
      program_(compile(devices, specs, model, batch, std::move(step), options_.program)) {}

void Evaluator::add_part(const EvaluatedPart& part, const data::Source& source,
                         const std::stop_token& stop,
                         std::map<int64_t, std::vector<double>>& losses) const {
  const std::vector<const runtime::Array*> params = part.params();
  const auto batch = static_cast<size_t>(batch_.latents.dims[0]);
  const auto belongs = [&](int64_t timestep) {
    const auto t = static_cast<double>(timestep);
    return t >= part.from && t < part.below;
  };
  // If samples have no timesteps, the timestep depends on the sample's index, and each process
  // reads only its own samples.
  const bool bring_timesteps = source.size() > 0 && source.at(0).timestep.has_value();
  std::map<int64_t, int64_t> taken;
  std::vector<Chosen> chosen;
  for (int64_t r = 0; r < source.size(); ++r) {
    if (stop.stop_requested()) {
      throw Stopped();
    }
    std::optional<data::Sample> sample;
    if (bring_timesteps) {
      sample = source.at(r);
    }
    const std::optional<int64_t> timestep =
        timestep_of(sample ? sample->timestep : std::nullopt, r, options_, objective_);
    if (!timestep || !belongs(*timestep) || taken[*timestep] >= options_.max_samples_per_timestep) {
      continue;
    }
    ++taken[*timestep];
    chosen.push_back({std::move(sample), r, *timestep});
    if (chosen.size() == batch) {
      add_losses(params, source, std::exchange(chosen, {}), losses);
    }
  }
  if (!chosen.empty()) {
    add_losses(params, source, std::move(chosen), losses);
  }
}

Evaluation Evaluator::run(std::span<const runtime::Array* const> params, const data::Source& source,
                          const std::stop_token& stop) const {
  const EvaluatedPart whole{
      .params = [&] { return std::vector<const runtime::Array*>(params.begin(), params.end()); }};
  return run(std::span(&whole, 1), source, stop);
}

Evaluation Evaluator::run(std::span<const EvaluatedPart> parts, const data::Source& source,
                          const std::stop_token& stop) const {
  const pjrt::AllowTransfers all;
  std::map<int64_t, std::vector<double>> losses;
  for (const EvaluatedPart& part : parts) {
    add_part(part, source, stop, losses);
  }
  if (losses.empty()) {
    check_evaluation(options_, objective_, source);  // throws with the reason
  }
  Evaluation out;
  for (const auto& [timestep, values] : losses) {
    out.by_timestep[timestep] = mean(values);
    out.loss += out.by_timestep[timestep] / static_cast<double>(losses.size());
    out.samples += static_cast<int64_t>(values.size());
  }
  return out;
}

/// The rows of a batch on devices of this process.
std::vector<int64_t> Evaluator::own_rows(size_t params) const {
  const runtime::Port& latents = program_.inputs()[params];
  return devices_.rows(latents.sharding, latents.shape.dims);
}

void Evaluator::add_losses(std::span<const runtime::Array* const> params,
                           const data::Source& source, std::vector<Chosen> chosen,
                           std::map<int64_t, std::vector<double>>& losses) const {
  const size_t count = chosen.size();
  std::vector<data::Sample> samples;
  std::vector<data::Sample> noise;
  std::vector<float> timesteps;
  std::vector<float> weights;
  std::vector<float> given;
  const std::vector<int64_t> rows = own_rows(params.size());
  // The last batch repeats its last sample, which counts once.
  for (const int64_t row : rows) {
    Chosen& each = chosen[std::min(static_cast<size_t>(row), count - 1)];
    if (!each.sample) {
      each.sample = source.at(each.number);
      check(!each.sample->timestep, "[evaluation] {} has a timestep, samples before it have none",
            each.sample->id);
    }
    samples.push_back(*each.sample);
    samples.back().timestep.reset();
    noise.push_back({.latents = noise_of(each.sample->latents.shape, options_.seed, each.number),
                     .encoder_hidden_states = HostArray({DType::F32, {1}}),
                     .timestep = {},
                     .id = each.sample->id});
  }
  for (size_t i = 0; i < static_cast<size_t>(batch_.latents.dims[0]); ++i) {
    const Chosen& each = chosen[std::min(i, count - 1)];
    timesteps.push_back(static_cast<float>(each.timestep));
    weights.push_back(i < count ? 1.0F : 0.0F);
    given.push_back(first_frame_of(objective_.first_frame, options_.seed, each.number));
  }
  const data::Batch batch = data::stack(std::move(samples));
  const HostArray drawn = data::stack(std::move(noise)).latents;
  const auto list = [](const std::vector<float>& values) {
    return HostArray::from<float>(DType::F32, {static_cast<int64_t>(values.size())}, values);
  };
  const std::vector<HostArray> drawn_lists{
      list(timesteps), list(weights), list(given),
      list(std::vector<float>(timesteps.size(),
                              static_cast<float>(objective_.guidance.value_or(0.0))))};
  std::vector<const HostArray*> arrays;
  for (const BatchPart& part : batch_parts(batch, batch_)) {
    arrays.push_back(part.array);
  }
  arrays.insert(arrays.end(), {&drawn, &drawn_lists[0], &drawn_lists[1]});
  if (objective_.guidance) {
    arrays.push_back(&drawn_lists[3]);
  }
  if (draws_first_frames(objective_, batch_.latents)) {
    arrays.push_back(&drawn_lists[2]);
  }
  std::vector<const runtime::Array*> arguments(params.begin(), params.end());
  std::vector<runtime::Array> uploaded;
  uploaded.reserve(arrays.size());  // pointers to its elements are taken below
  for (const HostArray* array : arrays) {
    const runtime::Port& port = program_.inputs()[arguments.size()];
    const bool is_list = array->shape.rank() == 1;  // of the whole batch
    Shape wanted = port.shape;
    wanted.dims[0] = is_list ? wanted.dims[0] : std::ssize(rows);
    check(array->shape == wanted, "[evaluation] samples from {} on are {}, but {} in training",
          batch.ids[0], to_string(array->shape), to_string(wanted));
    uploaded.push_back(is_list
                           ? devices_.upload(*array, port.sharding)
                           : devices_.upload_rows(array->bytes, port.shape, rows, port.sharding));
    arguments.push_back(&uploaded.back());
  }
  const HostArray result = program_.run(devices_, arguments)[0].to_host();
  for (size_t i = 0; i < count; ++i) {
    losses[chosen[i].timestep].push_back(result.as<float>()[i]);
  }
}

std::vector<std::string> evaluation_lines(int64_t step, const Evaluation& evaluation,
                                          double seconds) {
  std::vector<std::string> out;
  out.push_back(fmt::format("evaluation after step {}: {} samples in {:.2f} s", step + 1,
                            evaluation.samples, seconds));
  for (const auto& [timestep, loss] : evaluation.by_timestep) {
    out.push_back(fmt::format("  mean eval loss for timestep {}: {:.4f}", timestep, loss));
  }
  out.push_back(fmt::format("  average eval loss: {:.4f}", evaluation.loss));
  return out;
}

}  // namespace kinema::training
