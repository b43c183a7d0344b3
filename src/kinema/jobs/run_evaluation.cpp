#include "kinema/jobs/run_evaluation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/mesh/batch.h"
#include "kinema/plans/kernel_check.h"
#include "kinema/resolve/device.h"
#include "kinema/training/batch_shapes.h"
#include "kinema/training/network_model.h"

namespace kinema::jobs {
namespace {

/// The dims of a batch, with another number of samples.
Dims batched_like(const Shape& shape, int64_t batch) {
  Dims dims = shape.dims;
  dims[0] = batch;
  return dims;
}

}  // namespace

std::unique_ptr<training::Evaluator> make_evaluator(const resolve::Settings& config,
                                                    const resolve::TrainingStep& what,
                                                    const training::BatchShapes& shapes,
                                                    const runtime::Devices& devices,
                                                    const Job& job) {
  nn::ModelOptions options = what.options;
  options.dropout = 0;
  options.low_rank_dropout = 0;
  options.remat.kind = RematPolicy::Kind::NONE;
  training::StepOptions step = resolve::step_options(config, what.network, what.expert);
  step.batch_axes = resolve::batch_axes(config, devices.placement(), what.samples);
  training::EvaluationOptions evaluation = resolve::evaluation_options(config, what.expert);
  evaluation.program = plans::with_kernel_check(std::move(evaluation.program), devices, job);
  return std::make_unique<training::Evaluator>(devices, what.specs,
                                               training::network_model(what.network, options),
                                               shapes, step, std::move(evaluation));
}

void add_evaluation(const resolve::Settings& config, const runtime::Devices& devices,
                    const Job& job, Training& out) {
  const resolve::TrainingStep& what = out.step;
  const training::BatchShapes shapes =
      training::batch_shapes(out.eval_source->at(0), what.network.sizes(), what.samples);
  const auto is_like = [&](const training::BatchShapes& training) {
    return shapes.latents.dims == batched_like(training.latents, what.samples) &&
           shapes.text.dims == batched_like(training.text, what.samples);
  };
  check(
      std::ranges::any_of(out.batches, is_like),
      "[evaluation] the samples of {} are {} with text {}, training samples are {} with text {}{}",
      out.settings.evaluation_data, to_string(shapes.latents), to_string(shapes.text),
      to_string(out.batches[0].latents), to_string(out.batches[0].text),
      out.batches.size() > 1 ? " or another bucket's" : "");
  out.evaluator = make_evaluator(config, what, shapes, devices, job);
}

}  // namespace kinema::jobs
