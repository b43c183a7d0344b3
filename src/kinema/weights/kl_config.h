#pragma once

#include "kinema/model_files/checkpoint.h"
#include "kinema/models/kl_autoencoder/config.h"

namespace kinema::weights {

/// The sizes of the KL autoencoder in a folder or file: from its configuration, else from its
/// shapes; then the scale of the latents is that of the released model with the same number of
/// channels, and norms have its groups. Throws an Error with file and key, or tensor, for invalid
/// sizes.
kl_autoencoder::AutoencoderConfig kl_config(const model_files::Checkpoint& files);

/// Checks that the tensors are exactly those of these sizes. Throws an Error as check_tensors does.
void check_kl_tensors(const model_files::Checkpoint& files,
                      const kl_autoencoder::AutoencoderConfig& config);

}  // namespace kinema::weights
