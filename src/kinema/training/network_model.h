#pragma once

#include "kinema/networks/network.h"
#include "kinema/nn/model_options.h"
#include "kinema/training/nonfinite.h"
#include "kinema/training/step.h"

namespace kinema::training {

/// A network as the step's Model.
Model network_model(const networks::Network& network, const nn::ModelOptions& options);

/// The same with taps, one block after the other regardless of `scan_layers`. Takes the parameters
/// in the order and stacking of `parameters(options)`.
TappedModel tapped_network_model(const networks::Network& network, const nn::ModelOptions& options);

}  // namespace kinema::training
