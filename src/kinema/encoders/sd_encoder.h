#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinema/encoders/clip_text.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/encoders/text_files.h"

namespace kinema::encoders {

/// Files and options of the text encoder of Stable Diffusion 1 and 2.
struct SdTextSettings {
  std::filesystem::path pipeline;  // with text_encoder and tokenizer
  /// Used instead of the pipeline's.
  std::optional<TextFiles> files = {};
  /// The number of layers that are skipped at the end; none for negative prompts (diffusers,
  /// StableDiffusionPipeline.encode_prompt).
  int64_t clip_skip = 0;
  /// Width that the network expects of text states; 0: any.
  int64_t width = 0;
  DType dtype = DType::F32;
  Precision precision = Precision::HIGHEST;
  bool scan_layers = true;
  runtime::ProgramOptions program = {};
  std::vector<weights::Adapter> adapters = {};
  /// Textual inversion files, see LearnedWords; empty: none.
  std::vector<std::filesystem::path> embeddings = {};
  /// Receives a log line about a prompt that was truncated.
  std::function<void(const std::string& note)> on_note = {};
};

/// The text encoder of Stable Diffusion 1 and 2: states of CLIP's last layer, after clip_skip those
/// of an earlier one, with the final norm, f32 [n, 77, 768 or 1024]. Nothing is pooled. Prompts
/// with weights and long ones have several times 77 rows, see encode_weighted.
///
/// Files are opened and checked here; parameters are loaded for the first prompts, see ClipText.
/// Throws an Error with the folder if a file is missing or does not fit.
std::unique_ptr<TextEncoder> sd_text_encoder(const pjrt::Client& client, SdTextSettings settings);

}  // namespace kinema::encoders
