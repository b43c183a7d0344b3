#pragma once

#include <vector>

#include "kinema/config/config.h"
#include "kinema/job/job.h"
#include "kinema/model_source/expert.h"
#include "kinema/model_source/model_to_use.h"
#include "kinema/model_source/trained_adapter.h"
#include "kinema/networks/network.h"

/// What `kinema evaluate` reads.
namespace kinema::resolve {

/// Throws an Error for eval_split of a data set that has no samples to keep out.
void check_evaluation_data(const config::Config& config);

/// The configuration with what an evaluation reads on this machine.
config::Loaded with_evaluated_inputs(const config::Loaded& given, const Job& job);

/// The adapters of the checkpoint, or of lora_config's files.
std::vector<model_source::TrainedAdapter> evaluated_adapters(config::Config config,
                                                             const model_source::ModelToUse& model,
                                                             const networks::Network& network,
                                                             const model_source::Expert& expert,
                                                             const Job& job);

}  // namespace kinema::resolve
