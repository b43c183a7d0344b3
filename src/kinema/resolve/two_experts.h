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
#include "kinema/training/evaluation.h"
#include "kinema/training/experts.h"
#include "kinema/training/schedule.h"

/// A run of both experts of Wan 2.2: where they come from, whose turn a step is, at which rate.
namespace kinema::resolve {

/// Where the weights of each network come from that the run trains; empty paths: from scratch. Of
/// both, throws an Error where there is one only, or they have other sizes.
std::vector<std::filesystem::path> pretrained_networks(const config::Config& config,
                                                       const model_source::Expert& expert);

/// Nothing unless both are trained.
std::optional<training::TwoExperts> two_experts(const config::Config& config,
                                                const networks::Network& network,
                                                const model_source::Expert& expert);

/// The schedule of each network that the run trains: of both, over its own steps of the whole's.
std::vector<training::Schedule> schedules_of(const training::Schedule& whole,
                                             const std::optional<training::TwoExperts>& two);

/// The schedules as a line says them, `high_noise 30 steps, learning rate ...`.
std::string describe(const std::vector<training::Schedule>& schedules,
                     const std::optional<training::TwoExperts>& two, int64_t max_steps);

/// A line where one of both has no step in a run of so many.
std::vector<std::string> turn_notices(const std::optional<training::TwoExperts>& two,
                                      int64_t max_steps);

/// What an evaluation takes of a network, by its place in a run (0; of both 0 or 1), for the
/// timesteps that it is for.
std::vector<training::EvaluatedPart> evaluated_parts(
    const model_source::Expert& expert,
    const std::function<std::vector<const runtime::Array*>(int64_t place)>& params);

/// The place among the parts of a checkpoint (training::weights_parts) that a network begins with.
/// Throws an Error where both are trained and the checkpoint holds one.
int64_t weights_part_for(const std::filesystem::path& checkpoint, const model_source::Expert& one,
                         bool both);

}  // namespace kinema::resolve
