#pragma once

#include <memory>
#include <optional>
#include <span>

#include "kinema/config/config.h"
#include "kinema/runs/job.h"
#include "kinema/runs/training_step.h"
#include "kinema/training/experts.h"
#include "kinema/training/trainer.h"

/// The compiled step of a run without its state, and whether it fits.
namespace kinema::runs {

/// What a trainer is made of beside its state.
struct TrainerParts {
  const runtime::Devices& devices;
  TrainingStep what;
  std::span<const training::BatchShapes> batches;
  training::TrainerOptions trainer;
  std::optional<training::TwoExperts> two;
};

/// Compiled for every shape, without a state. With fewer shapes when the job is told to stop.
std::unique_ptr<training::Trainer> compiled(const TrainerParts& parts, const Job& job);

/// Throws an Error where the step with its state, and the expert that waits beside it, do not fit;
/// it names a change that does, which is compiled to know.
void check_trainer(const training::Trainer& trainer, const config::Config& config,
                   const TrainerParts& parts, const Job& job);

/// The same of the state alone, which is known before anything is compiled: `state` is that of
/// `specs`, with an average or without.
void check_state(std::span<const nn::ParamSpec> specs,
                 const training::StateParts<nn::ParamSpec>& state, bool average,
                 const training::Optimizer& optimizer,
                 const std::optional<training::TwoExperts>& two, const runtime::Devices& devices);

}  // namespace kinema::runs
