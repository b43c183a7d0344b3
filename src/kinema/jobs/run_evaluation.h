#pragma once

#include <memory>

#include "kinema/job/job.h"
#include "kinema/jobs/training.h"
#include "kinema/model_source/expert.h"
#include "kinema/resolve/settings.h"
#include "kinema/training/evaluation.h"

/// The evaluations of a training run.
namespace kinema::jobs {

/// Computes the loss of samples with these shapes, without gradients.
std::unique_ptr<training::Evaluator> make_evaluator(const resolve::Settings& config,
                                                    const resolve::TrainingStep& what,
                                                    const training::BatchShapes& shapes,
                                                    const runtime::Devices& devices,
                                                    const Job& job);

/// Sets the run's evaluator for batches of its `eval_source`. Throws an Error if their shapes
/// differ from the training's.
void add_evaluation(const resolve::Settings& config, const runtime::Devices& devices,
                    const Job& job, Training& out);

}  // namespace kinema::jobs
