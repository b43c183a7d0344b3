#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/job/job.h"
#include "kinema/model_source/expert.h"
#include "kinema/optimizers/schedule.h"
#include "kinema/training/evaluation.h"
#include "kinema/training/experts.h"

/// A run that trains both experts of Wan 2.2: their weights, the expert of each step, its learning
/// rate.
namespace kinema::resolve {

/// The folder of the initial weights of each trained network; empty: from scratch. With both
/// experts, throws an Error if only one has a folder, or if their sizes differ.
std::vector<std::filesystem::path> pretrained_networks(const config::Config& config,
                                                       const model_source::Expert& expert);

/// Nothing unless both experts are trained.
std::optional<training::TwoExperts> two_experts(const config::Config& config,
                                                const networks::Network& network,
                                                const model_source::Expert& expert);

/// The schedule of each trained network; with both experts, each has its own steps of `whole`.
std::vector<optimizers::Schedule> expert_schedules(const optimizers::Schedule& whole,
                                                   const std::optional<training::TwoExperts>& two);

/// The schedules in one line: `high_noise 30 steps, learning rate ...`.
std::string describe(const std::vector<optimizers::Schedule>& schedules,
                     const std::optional<training::TwoExperts>& two, int64_t max_steps);

/// A log line if one of both experts has no step within `max_steps`.
std::vector<std::string> expert_notices(const std::optional<training::TwoExperts>& two,
                                        int64_t max_steps);

/// The evaluated networks with their timesteps; `place`: the index of a network in the run, 0, or 0
/// and 1 with both experts.
std::vector<training::EvaluatedPart> evaluated_parts(
    const model_source::Expert& expert,
    const std::function<std::vector<const runtime::Array*>(int64_t place)>& params);

/// The index of the checkpoint's part (training::weights_parts) that initializes a network. Throws
/// an Error if both experts are trained and the checkpoint has only one.
int64_t expert_weights_part(const std::filesystem::path& checkpoint,
                            const model_source::Expert& one, bool both);

}  // namespace kinema::resolve
