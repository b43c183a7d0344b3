#pragma once

#include <filesystem>
#include <string>

#include "kinema/config/config.h"

/// Where the models of a configuration lie on this machine.
namespace kinema::model_source {

/// Where pretrained weights lie of a pipeline's `transformer`, or of its `transformer_2`; empty:
/// from scratch. Throws an Error when the folder that was named, or the part of a pipeline, is not
/// there.
std::filesystem::path pretrained_transformer(const config::Config& config,
                                             const std::string& part = "transformer");
/// The same of the expert that the run trains; `transformer` where it trains both, or there is one.
std::filesystem::path trained_transformer(const config::Config& config);
/// trained_transformer of a model on this machine; empty for a released model that a plan knows by
/// name only.
std::filesystem::path local_transformer(const config::Config& config);

/// A safetensors file that holds models of a pipeline beside the network, or one of them.
bool is_pipeline_file(const std::filesystem::path& path);
/// One that holds CLIP's two text encoders, which are all that Stable Diffusion XL has.
bool has_both_text_encoders(const std::filesystem::path& file);

/// The VAE's folder, or a file that holds it; throws an Error that says what to set when there is
/// none.
std::filesystem::path vae_folder(const config::Config& config);

/// The folder of the text encoders and tokenizers; throws an Error that says what to set when there
/// is none.
std::filesystem::path text_encoder_folder(const config::Config& config);

/// The single file that the text encoders lie in; empty: they have folders.
std::filesystem::path text_encoder_file(const config::Config& config);

}  // namespace kinema::model_source
