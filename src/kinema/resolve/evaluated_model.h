#pragma once

#include <vector>

#include "kinema/config/config.h"
#include "kinema/job/job.h"
#include "kinema/model_source/expert.h"
#include "kinema/model_source/selected_model.h"
#include "kinema/model_source/trained_adapter.h"
#include "kinema/networks/network.h"

/// The inputs of `kinema evaluate`.
namespace kinema::resolve {

/// Throws an Error if eval_split is set for a data set without samples to hold out.
void check_evaluation_data(const config::Config& config);

/// The configuration with local copies of an evaluation's inputs.
config::Loaded with_evaluated_inputs(const config::Loaded& given, const Job& job);

/// The adapters of the checkpoint, or of the files in lora_config.
std::vector<model_source::TrainedAdapter> evaluated_adapters(
    config::Config config, const model_source::SelectedModel& model,
    const networks::Network& network, const model_source::Expert& expert, const Job& job);

}  // namespace kinema::resolve
