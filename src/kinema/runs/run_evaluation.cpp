#include "kinema/runs/run_evaluation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/mesh/batch.h"
#include "kinema/runs/device.h"
#include "kinema/runs/kernel_check.h"
#include "kinema/training/network_model.h"

namespace kinema::runs {
namespace {

/// The dims of a batch with another number of samples.
Dims batched_like(const Shape& shape, int64_t batch) {
  Dims dims = shape.dims;
  dims[0] = batch;
  return dims;
}

/// Those of timesteps_list that are trained, and those that no schedule has, which are refused
/// where they would be used.
std::vector<int64_t> trained_timesteps(const config::Config& config, const Expert& expert) {
  std::vector<int64_t> out;
  for (const int64_t t : config.data.timesteps_list) {
    const auto value = static_cast<double>(t);
    const bool exists = value >= 0 && value <= 1000;
    if (!exists || (value >= expert.min_timestep && value <= expert.max_timestep)) {
      out.push_back(t);
    }
  }
  return out;
}

}  // namespace

training::EvaluationOptions evaluation_options(const config::Config& config, const Expert& expert) {
  return {.timesteps = trained_timesteps(config, expert),
          .samples = config.data.num_eval_samples,
          .most_of_a_timestep = config.run.eval_max_number_of_samples_in_bucket,
          .seed = static_cast<uint64_t>(config.run.seed),
          .program = program_options(config)};
}

bool has_evaluation_samples(const config::RunConfig& run) {
  return !run.eval_data_dir.empty() || run.eval_split > 0;
}

std::unique_ptr<training::Evaluator> make_evaluator(const config::Config& config,
                                                    const TrainingStep& what,
                                                    const training::BatchShapes& shapes,
                                                    const runtime::Devices& devices,
                                                    const Job& job) {
  nn::ModelOptions options = what.options;
  options.dropout = 0;
  options.low_rank_dropout = 0;
  options.remat.kind = RematPolicy::Kind::NONE;
  training::StepOptions step = step_options(config, what.network, what.expert);
  step.batch_axes =
      mesh::batch_axes(devices.placement(), config.parallel.data_sharding, what.samples);
  training::EvaluationOptions evaluation = evaluation_options(config, what.expert);
  evaluation.program = trying_kernels(std::move(evaluation.program), devices, job);
  return std::make_unique<training::Evaluator>(devices, what.specs,
                                               training::network_model(what.network, options),
                                               shapes, step, std::move(evaluation));
}

void add_evaluation(const config::Config& config, const runtime::Devices& devices, const Job& job,
                    Training& out) {
  const TrainingStep& what = out.step;
  const training::BatchShapes shapes =
      batch_shapes(out.eval_source->at(0), what.network.sizes(), what.samples);
  const auto is_like = [&](const training::BatchShapes& training) {
    return shapes.latents.dims == batched_like(training.latents, what.samples) &&
           shapes.text.dims == batched_like(training.text, what.samples);
  };
  check(std::ranges::any_of(out.batches, is_like),
        "[evaluation] the samples of {} are {} with text {}, those of the training {} with {}{}",
        config.run.eval_split > 0 ? "eval_split" : config.run.eval_data_dir,
        to_string(shapes.latents), to_string(shapes.text), to_string(out.batches[0].latents),
        to_string(out.batches[0].text), out.batches.size() > 1 ? " or another bucket's" : "");
  out.evaluator = make_evaluator(config, what, shapes, devices, job);
}

}  // namespace kinema::runs
