#pragma once

#include <cstdint>
#include <filesystem>

#include "kinema/config/config.h"
#include "kinema/encoders/text_files.h"

namespace kinema::model_source {

/// The text encoders of a pipeline, and the places of their files.
struct TextModels {
  enum class Kind : uint8_t { UMT5, FLUX, SDXL, SD, QWEN3 };
  Kind kind = Kind::UMT5;
  encoders::TextFiles first;
  encoders::TextFiles second;  // of FLUX and SDXL
};

/// The text encoders that a configuration names: text_encoder_file and text_encoder_2_file, else
/// wan_text_encoder_pretrained_model_name_or_path, else the pipeline. Each may be a folder with
/// text_encoder/ and tokenizer/, a folder of Wan's original release, or a file with one or all
/// models. Tokenizers are those of the same places, or in the encoder's own file.
///
/// A Qwen3 is the encoder of Z-Image. A CLIP alone is the encoder of Stable Diffusion 1 and 2,
/// unless the pipeline's class has two.
///
/// Throws an Error that names what is missing and the key that takes it, and for a file of another
/// kind, with the key that takes that one.
TextModels text_models(const config::Config& config);

/// The file of Wan's original release in a folder (`Wan2.1_VAE.pth`, `models_t5_*.pth`); empty if
/// there is none.
std::filesystem::path original_vae(const std::filesystem::path& folder);
std::filesystem::path original_text_encoder(const std::filesystem::path& folder);

}  // namespace kinema::model_source
