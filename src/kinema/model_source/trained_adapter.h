#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/job/job.h"
#include "kinema/model_source/expert.h"
#include "kinema/networks/network.h"
#include "kinema/nn/model_options.h"
#include "kinema/weights/adapter.h"

namespace kinema::model_source {

/// The adapter that a configuration with enable_lora trains.
struct TrainedAdapter {
  weights::AdapterConfig config;
  std::vector<weights::Adapter> start;   // initial values of its factors; empty: random
  std::vector<weights::Adapter> merged;  // merged into the network before the training; those of
                                         // training_lora first
  std::vector<std::string> lines;        // log lines about these files

  /// `LoRA of rank 16, alpha 16, on 10 kinds of linear layers`.
  std::string text() const;
};

/// Opens the files of lora_config: the adapter starts from the first, the others are merged, as are
/// those of training_lora.
/// Returns nothing without enable_lora. Throws an Error for a file with another rank or for another
/// model, and for modules that the network does not have.
std::optional<TrainedAdapter> trained_adapter(const config::Config& config,
                                              const networks::Network& network,
                                              const Expert& expert, const Job& job);

/// The adapter of each trained network. Also throws an Error if those of both experts differ in
/// rank or alpha: they share a program.
std::vector<TrainedAdapter> trained_adapters(const config::Config& config,
                                             const networks::Network& network, const Expert& expert,
                                             const Job& job);

}  // namespace kinema::model_source
