#pragma once

#include "kinema/config/config.h"
#include "kinema/networks/network.h"

/// Which network a configuration means, and its sizes as keys.
namespace kinema::model_source {

/// The network of a run that starts from scratch: of network_config or of the sizes' keys. With
/// `autoencoder: space_to_depth` the channels follow from the block unless they are given.
networks::Network scratch_network(const config::Loaded& loaded);

/// The network without its weights: the folder's, where the named model is here; a released one by
/// its name, with the keys given beside it over its sizes; else that of scratch_network. Throws an
/// Error where the name is of none.
networks::Network planned_network(const config::Loaded& loaded);

/// Writes a network's sizes into the keys that say them, where they are of its family, so that a
/// run's configuration is whole.
void set_sizes(config::ModelConfig& keys, const networks::Network& network);

}  // namespace kinema::model_source
