#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/mesh/placement.h"
#include "kinema/model_source/trained_adapter.h"
#include "kinema/model_source/trained_model.h"
#include "kinema/networks/network.h"
#include "kinema/nn/params.h"
#include "kinema/training/step.h"

namespace kinema::resolve {

/// What decides a configuration's training step on a mesh, whether its devices are here (train) or
/// not (plan). Of both experts it is one step, which either is given to.
struct TrainingStep {
  model_source::Expert expert;
  networks::Network network;
  nn::ModelOptions options;          // placed for the batch
  std::vector<nn::ParamSpec> specs;  // in the dtypes that the network works in
  training::StepOptions step;
  /// What is trained of each network, where that is not the network.
  std::vector<model_source::TrainedAdapter> adapters;
  int64_t samples = 0;                // of a batch over all devices
  int64_t batch = 0;                  // of a step, which is gradient_accumulation_steps of these
  std::string batch_text;             // how large it is and how it lies on the devices
  std::vector<std::string> warnings;  // what looks wrong without being certain

  training::StepGraph build(const training::BatchShapes& shapes) const;
};

/// Throws an Error where model, batch and mesh do not fit each other, or the configuration does not
/// fit the model.
TrainingStep training_step(const config::Config& config, const networks::Network& network,
                           const model_source::Expert& expert,
                           std::vector<model_source::TrainedAdapter> adapters,
                           const mesh::Placement& asked);

/// What of a configuration decides the step beside the network's sizes and mesh.
training::StepOptions step_options(const config::Config& config, const networks::Network& network,
                                   const model_source::Expert& expert);

}  // namespace kinema::resolve
