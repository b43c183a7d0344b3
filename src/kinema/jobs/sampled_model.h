#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kinema/job/job.h"
#include "kinema/model_source/selected_model.h"
#include "kinema/networks/network.h"
#include "kinema/nn/model_options.h"
#include "kinema/resolve/settings.h"

namespace kinema::jobs {

/// The sampled model, as its files describe it.
struct SampledModel {
  model_source::SelectedModel model;
  networks::Network network;
  nn::ModelOptions options;
  std::vector<std::string> adapters;     // one line per LoRA
  std::vector<std::string> controlnets;  // one line for each
};

/// Opens the model, and sets `checkpoint` to the run's checkpoint that is read.
SampledModel open_model(const resolve::Settings& loaded, std::filesystem::path& checkpoint,
                        const Job& job);

/// The configuration with local copies of its inputs. `checkpoint` is set to the run's checkpoint
/// that all processes use.
resolve::Settings with_local_inputs(const resolve::Settings& given,
                                    std::filesystem::path& checkpoint, const Job& job);

}  // namespace kinema::jobs
