#pragma once

#include <optional>
#include <string>

#include "kinema/job/job.h"
#include "kinema/jobs/compiled_trainer.h"
#include "kinema/resolve/settings.h"
#include "kinema/resolve/training_step.h"
#include "kinema/training/trainer.h"

/// Whether a run's training fits into its devices and the host, and which settings take less.
namespace kinema::jobs {

/// Throws an Error where the step with its state, and the expert that waits beside it, do not fit;
/// it names a change that does, which is compiled to know.
void check_step_fits(const training::Trainer& trainer, const resolve::Settings& config,
                     const TrainerParts& parts, const Job& job);

/// The same before anything is compiled, of what the step takes at least.
void check_step_may_fit(const training::StepGraph& step, const resolve::Settings& config,
                        const TrainerParts& parts, const Job& job);

/// The same of the state alone, which is known before anything is compiled.
void check_state_fits(const resolve::TrainingStep& what,
                      const std::optional<training::TwoExperts>& two,
                      const runtime::Devices& devices);

/// `host memory: 14.20 GB wait there for each device, 28.40 GB move in a step`; empty where nothing
/// does.
std::string waiting_text(const training::Trainer& trainer);

}  // namespace kinema::jobs
