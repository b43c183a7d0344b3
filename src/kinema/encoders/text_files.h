#pragma once

#include <filesystem>
#include <string_view>

#include "kinema/model_files/checkpoint.h"

namespace kinema::encoders {

/// The files of a text encoder.
struct TextFiles {
  std::filesystem::path model;  // `text_encoder` of a pipeline, or a file
  /// The model to read from a file that contains several.
  std::string_view part = model_files::kTextEncoder;
  /// `tokenizer` of a pipeline, or a file that contains one (ComfyUI's umt5_xxl).
  std::filesystem::path tokenizer;
  /// A config.json with the sizes of a file that does not tell all of them; empty: none.
  std::filesystem::path config = {};
};

}  // namespace kinema::encoders
