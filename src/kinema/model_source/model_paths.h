#pragma once

#include <filesystem>
#include <string>

#include "kinema/config/config.h"
#include "kinema/model_files/family.h"

/// The local paths of a configuration's models.
namespace kinema::model_source {

/// The path of a pipeline's pretrained `transformer` or `transformer_2`; empty: train from scratch.
/// Throws an Error if the named folder, or that part of the pipeline, does not exist.
std::filesystem::path pretrained_transformer(const config::Config& config,
                                             const std::string& part = "transformer");
/// The path of a transformer (place 0: the only one or that of high noise, 1: of low noise) with
/// its entry of transformer_module laid over it, if there is one. Throws an Error for a file that
/// is no module, or for another number of them.
std::filesystem::path with_module(const config::Config& config,
                                  const std::filesystem::path& transformer, size_t place);
/// The same for the expert that the run trains; `transformer` if it trains both, or there is only
/// one.
std::filesystem::path trained_transformer(const config::Config& config);
/// trained_transformer for a model on this machine; empty for a released model that `plan` knows
/// only by name.
std::filesystem::path local_transformer(const config::Config& config);

/// The family of local_transformer; null if it is not here, or not known.
const model_files::Family* family_of_network(const config::Config& config);

/// True for a safetensors file with the network and other models of a pipeline, or with one of
/// those.
bool is_pipeline_file(const std::filesystem::path& path);
/// True for a file with both CLIP text encoders, which are all that Stable Diffusion XL has.
bool has_both_text_encoders(const std::filesystem::path& file);

/// The VAE's folder, or a file that contains it; throws an Error with the key to set if there is
/// none.
std::filesystem::path vae_folder(const config::Config& config);

/// True for a folder of Wan's original release: a network or two, an autoencoder and a text encoder
/// of torch.
bool is_original_repository(const std::filesystem::path& folder);

}  // namespace kinema::model_source
