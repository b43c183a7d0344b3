#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/runs/job.h"
#include "kinema/runs/training_step.h"
#include "kinema/training/memory.h"
#include "kinema/training/trainer.h"

/// What a run's training takes of its devices and of the host, and which settings take less.
namespace kinema::runs {

/// What a trainer is made of beside its state.
struct TrainerParts {
  const runtime::Devices& devices;
  TrainingStep what;
  std::span<const training::BatchShapes> batches;
  training::TrainerOptions trainer;
};

/// Compiled for every shape, without a state.
std::unique_ptr<training::Trainer> compiled_trainer(const TrainerParts& parts, const Job& job);

/// Ways to take less memory, those that change no loss first. Each is compiled when it is asked.
std::vector<training::Alternative> smaller_steps(const config::Config& config,
                                                 const TrainerParts& parts, const Job& job);

/// What of a step's state its devices hold; that of a CPU is the host.
int64_t held_bytes(const TrainingStep& what, const runtime::Devices& devices);

/// Ways to a smaller state on the devices: weights or moments that wait on the host, or two bytes a
/// number.
std::vector<training::Alternative> smaller_state(const TrainingStep& what,
                                                 const runtime::Devices& devices);

/// Throws an Error when what waits on the host does not fit there.
void check_waiting(const training::Trainer& trainer);

/// `host memory: 14.20 GB wait there for each device, 28.40 GB move in a step`; empty where nothing
/// does.
std::string waiting_text(const training::Trainer& trainer);

}  // namespace kinema::runs
