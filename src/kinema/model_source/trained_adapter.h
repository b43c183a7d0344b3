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
  std::vector<weights::Adapter> start;   // what its factors begin as; empty: by their init
  std::vector<weights::Adapter> merged;  // into the network, before
  std::vector<std::string> lines;        // on these files

  /// `LoRA of rank 16, alpha 16, on 10 kinds of linear layers`.
  std::string text() const;
};

/// Opens the files of lora_config: the first is gone on from, the others are merged. Nothing
/// without enable_lora. Throws an Error for a file of another rank, one for another model, and for
/// modules that the network does not have.
std::optional<TrainedAdapter> trained_adapter(const config::Config& config,
                                              const networks::Network& network,
                                              const Expert& expert, const Job& job);

/// That of each network that is trained. Throws an Error also where those of both experts differ
/// in rank or in how much they count: they share a program.
std::vector<TrainedAdapter> trained_adapters(const config::Config& config,
                                             const networks::Network& network, const Expert& expert,
                                             const Job& job);

}  // namespace kinema::model_source
