#pragma once

#include <optional>

#include "kinema/model_files/checkpoint.h"
#include "kinema/models/kl_autoencoder/config.h"

namespace kinema::weights {

/// The sizes of the KL autoencoder in a folder or file: from its configuration, else from its
/// shapes; then norms have the groups of the released models, and the scale of the latents is that
/// of the network in the same file, else `latent_scale` (the network's family's), else that of the
/// released model with the same number of channels: the autoencoders of Stable Diffusion 1, 2 and
/// XL differ in their scale alone. Throws an Error with file and key, or tensor, for invalid sizes.
kl_autoencoder::AutoencoderConfig kl_config(const model_files::Checkpoint& files,
                                            std::optional<double> latent_scale = {});

/// Checks that the tensors are exactly those of these sizes. Throws an Error as check_tensors does.
void check_kl_tensors(const model_files::Checkpoint& files,
                      const kl_autoencoder::AutoencoderConfig& config);

}  // namespace kinema::weights
