#pragma once

#include <memory>

#include "kinema/config/config.h"
#include "kinema/runs/expert.h"
#include "kinema/runs/job.h"
#include "kinema/runs/training.h"
#include "kinema/training/evaluation.h"

/// The evaluations of a training run.
namespace kinema::runs {

training::EvaluationOptions evaluation_options(const config::Config& config, const Expert& expert);

/// Whether evaluations compute a loss, and do not only make videos.
bool has_evaluation_samples(const config::RunConfig& run);

/// The loss on samples of these shapes, without gradients.
std::unique_ptr<training::Evaluator> make_evaluator(const config::Config& config,
                                                    const TrainingStep& what,
                                                    const training::BatchShapes& shapes,
                                                    const runtime::Devices& devices,
                                                    const Job& job);

/// Sets the run's evaluator, for batches of its `eval_source`. Throws an Error where their shapes
/// differ from those of the training.
void add_evaluation(const config::Config& config, const runtime::Devices& devices, const Job& job,
                    Training& out);

}  // namespace kinema::runs
