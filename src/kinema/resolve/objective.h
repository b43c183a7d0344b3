#pragma once

#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/model_source/expert.h"
#include "kinema/networks/network.h"
#include "kinema/training/objective.h"

namespace kinema::resolve {

/// What a run's network learns: as its family does, with what the model's scheduler says of a
/// diffusion, and the configuration's keys on top. Throws an Error for keys that belong to the
/// other kind of objective.
training::ObjectiveOptions objective_of(const config::Config& config,
                                        const networks::Network& network,
                                        const model_source::Expert& expert);

/// A line where prediction_type makes a pretrained diffusion learn to predict something else than
/// its own files say; else nothing.
std::vector<std::string> objective_warnings(const config::Config& config,
                                            const networks::Network& network,
                                            const training::ObjectiveOptions& objective);

/// The keys of optimizer's timestep_bias, each optional. Throws an Error for another key or a value
/// out of range.
schedulers::TimestepBias timestep_bias(const config::Tree& given);

}  // namespace kinema::resolve
