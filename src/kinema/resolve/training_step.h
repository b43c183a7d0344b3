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

/// A configuration's training step on a mesh, whose devices exist (train) or not (plan). Two
/// experts share one step.
struct TrainingStep {
  model_source::Expert expert;
  networks::Network network;
  nn::ModelOptions options;          // sharded for the batch
  std::vector<nn::ParamSpec> specs;  // in the network's compute dtypes
  training::StepOptions step;
  std::string remat_policy;  // its name
  /// The trained adapter of each network; empty if the networks themselves are trained.
  std::vector<model_source::TrainedAdapter> adapters;
  int64_t samples = 0;                // per batch, over all devices
  int64_t batch = 0;                  // samples per step: gradient_accumulation_steps batches
  std::string batch_text;             // its size and sharding
  std::vector<std::string> warnings;  // likely mistakes

  training::StepGraph build(const training::BatchShapes& shapes) const;
};

/// Throws an Error if model, batch and mesh, or the configuration and the model, do not fit
/// together.
TrainingStep training_step(const config::Config& config, const networks::Network& network,
                           const model_source::Expert& expert,
                           std::vector<model_source::TrainedAdapter> adapters,
                           const mesh::Placement& asked);

/// The step's options from the configuration, in addition to the network's sizes and mesh.
training::StepOptions step_options(const config::Config& config, const networks::Network& network,
                                   const model_source::Expert& expert);

}  // namespace kinema::resolve
