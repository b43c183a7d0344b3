#pragma once

#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/model_source/expert.h"
#include "kinema/networks/network.h"
#include "kinema/training/objective.h"

namespace kinema::resolve {

/// The training objective: the family's, with the diffusion settings of the model's scheduler and
/// overrides from the configuration. Throws an Error for keys of the other kind of objective.
training::ObjectiveOptions training_objective(const config::Config& config,
                                              const networks::Network& network,
                                              const model_source::Expert& expert);

/// A warning if prediction_type differs from that of the files of a pretrained diffusion model;
/// else nothing.
std::vector<std::string> objective_warnings(const config::Config& config,
                                            const networks::Network& network,
                                            const training::ObjectiveOptions& objective);

/// The keys of timestep_bias, each optional. Throws an Error for another key or a value out of
/// range.
schedulers::TimestepBias timestep_bias(const config::Tree& given);

}  // namespace kinema::resolve
