#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/job/job.h"
#include "kinema/model_source/expert.h"
#include "kinema/model_source/selected_model.h"
#include "kinema/networks/network.h"
#include "kinema/weights/lora.h"

namespace kinema::model_source {

/// The adapters of `lora_config` for one transformer, in their order.
std::vector<weights::Adapter> open_adapters(const config::Config& config, const Expert& expert,
                                            const Job& job);

/// The files of `training_lora` for one transformer, in their order.
std::vector<weights::Adapter> open_training_lora(const config::Config& config, const Expert& expert,
                                                 const Job& job);

/// A log line for each adapter that was trained for the other expert, not for `expert` (0 or 1).
std::vector<std::string> other_expert_lines(std::span<const weights::Adapter> adapters,
                                            int64_t expert);

/// Opens the files of `lora_config`, checks them against their transformers, and adds them to
/// `model`; with `lora_mode: apply` the options get the required ranks. Returns a line for each
/// file and transformer. If `model` is from a run that trains an adapter, that adapter is first;
/// the run's own start file is not added again.
std::vector<std::string> add_lora(const config::Config& config, nn::ModelOptions& options,
                                  SelectedModel& model, const Job& job);

/// The parts of a run's own adapter that are for text encoders.
TextAdapters trained_text_of(const SelectedModel& model);

/// The same as add_lora for a model of which only the sizes are known: checks the files against it,
/// and gives `options` the ranks.
void plan_lora(const config::Config& config, const networks::Network& network,
               nn::ModelOptions& options, const Job& job);

}  // namespace kinema::model_source
