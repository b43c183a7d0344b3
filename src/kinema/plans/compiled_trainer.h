#pragma once

#include <memory>
#include <optional>
#include <span>

#include "kinema/job/job.h"
#include "kinema/resolve/training_step.h"
#include "kinema/training/experts.h"
#include "kinema/training/trainer.h"

/// The compiled step of a run, without its state.
namespace kinema::plans {

/// The inputs of a trainer, without its state.
struct TrainerParts {
  const runtime::Devices& devices;
  resolve::TrainingStep what;
  std::span<const training::BatchShapes> batches;
  training::TrainerOptions trainer;
  std::optional<training::TwoExperts> two;
};

/// A trainer that is compiled for every shape, without a state; for fewer shapes if a stop is
/// requested.
std::unique_ptr<training::Trainer> compiled(const TrainerParts& parts, const Job& job);

}  // namespace kinema::plans
