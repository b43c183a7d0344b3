#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/job/job.h"
#include "kinema/model_source/expert.h"
#include "kinema/model_source/model_to_use.h"
#include "kinema/networks/network.h"
#include "kinema/weights/lora.h"

namespace kinema::model_source {

/// The files of `lora_config` for one transformer, in their order.
std::vector<weights::Adapter> open_adapters(const config::Config& config, const Expert& expert,
                                            const Job& job);

/// A line about each adapter that says it was trained for the other expert than this, 0 or 1.
std::vector<std::string> of_other_expert(std::span<const weights::Adapter> adapters,
                                         int64_t expert);

/// Opens the files of `lora_config`, checks them against the transformers they are for, and puts
/// them into `folder`; with `lora_mode: apply` the options get the ranks that they need. Returns a
/// line about each file and transformer.
/// Before them comes the adapter of the run that `model` is of, in whose configuration's first file
/// it began.
std::vector<std::string> add_lora(const config::Config& config, nn::ModelOptions& options,
                                  ModelToUse& model, const Job& job);

/// The same for a model of which nothing but its sizes is here: checks the files against it, and
/// gives `options` the ranks.
void plan_lora(const config::Config& config, const networks::Network& network,
               nn::ModelOptions& options, const Job& job);

}  // namespace kinema::model_source
