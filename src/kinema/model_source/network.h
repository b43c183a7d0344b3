#pragma once

#include "kinema/config/config.h"
#include "kinema/networks/network.h"

/// The network of a configuration, and its sizes as keys.
namespace kinema::model_source {

/// The network of a run from scratch: from network_config, or from the size keys. With
/// `autoencoder: space_to_depth` the channels follow from the block size unless they are given.
networks::Network scratch_network(const config::Loaded& loaded);

/// The network without its weights: from the model's folder if it exists; for the name of a
/// released model, from built-in sizes with given keys as overrides; else scratch_network. Throws
/// an Error for an unknown name.
networks::Network planned_network(const config::Loaded& loaded);

/// Sets the size keys to a network's sizes if they are for its family, so that a run's saved
/// configuration is complete.
void set_sizes(config::ModelConfig& keys, const networks::Network& network);

}  // namespace kinema::model_source
