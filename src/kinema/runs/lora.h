#pragma once

#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/networks/network.h"
#include "kinema/runs/job.h"
#include "kinema/sample/pipeline_folder.h"

namespace kinema::runs {

/// Opens the files of `lora_config`, checks them against the transformers they are for, and puts
/// them into `folder`; with `lora_mode: apply` the options get the ranks that they need. Returns a
/// line about each file and transformer.
std::vector<std::string> add_lora(const config::Config& config, nn::ModelOptions& options,
                                  sample::PipelineFolder& folder, const Job& job);

/// The same for a model of which nothing but its sizes is here: checks the files against it, and
/// gives `options` the ranks.
void plan_lora(const config::Config& config, const networks::Network& network,
               nn::ModelOptions& options, const Job& job);

}  // namespace kinema::runs
