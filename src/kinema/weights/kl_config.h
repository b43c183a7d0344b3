#pragma once

#include "kinema/models/kl_autoencoder/config.h"
#include "kinema/weights/checkpoint.h"

namespace kinema::weights {

/// The sizes of the KL autoencoder in a folder or file: what its configuration says, else what the
/// shapes say; then latents are scaled as in the released model with as many channels, and norms
/// have its groups. Throws an Error naming file and key, or tensor, for sizes that cannot be.
kl_autoencoder::AutoencoderConfig kl_config(const Checkpoint& files);

/// Checks that the tensors are exactly those of the sizes. Throws an Error as check_tensors does.
void check_kl_tensors(const Checkpoint& files, const kl_autoencoder::AutoencoderConfig& config);

}  // namespace kinema::weights
