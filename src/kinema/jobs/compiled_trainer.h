#pragma once

#include <memory>
#include <optional>
#include <span>

#include "kinema/job/job.h"
#include "kinema/resolve/training_step.h"
#include "kinema/training/experts.h"
#include "kinema/training/trainer.h"

/// The compiled step of a run without its state.
namespace kinema::jobs {

/// What a trainer is made of beside its state.
struct TrainerParts {
  const runtime::Devices& devices;
  resolve::TrainingStep what;
  std::span<const training::BatchShapes> batches;
  training::TrainerOptions trainer;
  std::optional<training::TwoExperts> two;
};

/// Compiled for every shape, without a state. With fewer shapes when the job is told to stop.
std::unique_ptr<training::Trainer> compiled(const TrainerParts& parts, const Job& job);

}  // namespace kinema::jobs
