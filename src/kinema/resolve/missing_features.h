#pragma once

#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/networks/network.h"
#include "kinema/sample/pipeline.h"

/// Features that keys need and a network does not have: config::model_notices makes a log line
/// of them. They follow from the family's sizes and objective; no other code lists which keys a
/// family reads.
namespace kinema::resolve {

/// For a network that is trained or sampled.
config::MissingFeatures missing_features(const networks::Network& network, bool two_experts,
                                         const config::Config& config);

/// The same, with features that the request lacks: keys of negative prompts have no effect without
/// classifier-free guidance.
config::MissingFeatures missing_features(const networks::Network& network, bool two_experts,
                                         const config::Config& config,
                                         const sample::GenerateRequest& request);

/// config::notices, and a log line on keys that have no effect with this model
/// (config::model_notices), which is trained, or sampled with this request.
std::vector<std::string> notices(const config::Loaded& loaded, const std::string& command);
std::vector<std::string> model_notices(const config::Loaded& loaded,
                                       const networks::Network& network, bool two_experts);
std::vector<std::string> model_notices(const config::Loaded& loaded,
                                       const networks::Network& network, bool two_experts,
                                       const sample::GenerateRequest& request);

}  // namespace kinema::resolve
