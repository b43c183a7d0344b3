#pragma once

#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/networks/network.h"
#include "kinema/sample/pipeline.h"

/// What of a model keys may need, and a network says that it has not: config::notices_of_model
/// makes a line of it. Families say it by their sizes and what they learned; nobody else lists
/// which keys a family reads.
namespace kinema::resolve {

/// Of a network that is trained, or sampled.
config::Lacks missing_features(const networks::Network& network, bool two_experts,
                               const config::Config& config);

/// The same, with what the request lacks: keys of a negative prompt do nothing where nothing is
/// guided by one.
config::Lacks missing_features(const networks::Network& network, bool two_experts,
                               const config::Config& config,
                               const sample::GenerateRequest& request);

/// config::notices, and a line on keys that do nothing with this model (config::notices_of_model):
/// one that is trained, or sampled with this request.
std::vector<std::string> notices(const config::Loaded& loaded, const std::string& command);
std::vector<std::string> model_notices(const config::Loaded& loaded,
                                       const networks::Network& network, bool two_experts);
std::vector<std::string> model_notices(const config::Loaded& loaded,
                                       const networks::Network& network, bool two_experts,
                                       const sample::GenerateRequest& request);

}  // namespace kinema::resolve
