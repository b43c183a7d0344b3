#pragma once

#include "kinema/models/wan/config.h"
#include "kinema/models/wan/transformer.h"
#include "kinema/training/nonfinite.h"
#include "kinema/training/step.h"

namespace kinema::training {

/// The Wan transformer as a Model of the step.
Model wan_model(const wan::TransformerConfig& config, const wan::ModelOptions& options);

/// The same, one block after the other whatever `scan_layers` says, with its intermediate values
/// offered. Takes the parameters in the order and stacking of `parameters(config, options)`.
TappedModel tapped_wan_model(const wan::TransformerConfig& config,
                             const wan::ModelOptions& options);

}  // namespace kinema::training
