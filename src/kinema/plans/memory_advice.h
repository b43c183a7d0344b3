#pragma once

#include <optional>
#include <string>

#include "kinema/job/job.h"
#include "kinema/plans/compiled_trainer.h"
#include "kinema/resolve/settings.h"
#include "kinema/resolve/training_step.h"
#include "kinema/training/trainer.h"

/// Checks whether a training run fits into the memory of its devices and host, and finds settings
/// that need less.
namespace kinema::plans {

/// Throws an Error if the step with its state and the idle expert does not fit; it names a change
/// that does fit, which is found by compiling.
void check_step_fits(const training::Trainer& trainer, const resolve::Settings& config,
                     const TrainerParts& parts, const Job& job);

/// The same before compilation, with a lower bound of the step's memory.
void check_step_may_fit(const training::StepGraph& step, const resolve::Settings& config,
                        const TrainerParts& parts, const Job& job);

/// The same for the state only, which is known before compilation.
void check_state_fits(const resolve::TrainingStep& what,
                      const std::optional<training::TwoExperts>& two,
                      const runtime::Devices& devices);

/// `host memory: 14.20 GB offloaded per device, 28.40 GB transferred per step`; empty without
/// offloaded values.
std::string offloaded_text(const training::Trainer& trainer);

}  // namespace kinema::plans
