#pragma once

#include "kinema/config/config.h"
#include "kinema/networks/network.h"
#include "kinema/sample/pipeline.h"

/// What of a model keys may need, and a network says that it has not: config::notices_of_model
/// makes a line of it. Families say it by their sizes and what they learned; nobody else lists
/// which keys a family reads.
namespace kinema::runs {

/// Of a network that is trained, or sampled.
config::Lacks missing_features(const networks::Network& network, bool two_experts,
                               const config::Config& config);

/// The same, with what the request lacks: keys of a negative prompt do nothing where nothing is
/// guided by one.
config::Lacks missing_features(const networks::Network& network, bool two_experts,
                               const config::Config& config,
                               const sample::GenerateRequest& request);

}  // namespace kinema::runs
