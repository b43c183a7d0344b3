#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "kinema/encoders/clip_text.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/encoders/text_files.h"

namespace kinema::encoders {

/// Files and options of a Stable Diffusion XL pipeline's text encoders.
struct SdxlTextSettings {
  std::filesystem::path pipeline;  // with text_encoder, tokenizer, text_encoder_2, tokenizer_2
  /// Used instead of the pipeline's.
  std::optional<TextFiles> first = {};
  std::optional<TextFiles> second = {};
  /// The number of additional layers that are skipped at the end; none for negative prompts
  /// (diffusers, StableDiffusionXLPipeline.encode_prompt).
  int64_t clip_skip = 0;
  /// Widths that the network expects of text states and pooled text; 0: any.
  int64_t width = 0;
  int64_t pooled_width = 0;
  DType dtype = DType::F32;
  Precision precision = Precision::HIGHEST;
  bool scan_layers = true;
  runtime::ProgramOptions program = {};
  /// Of the first and of the second encoder.
  std::vector<weights::Adapter> adapters = {};
  std::vector<weights::Adapter> adapters_2 = {};
  /// Textual inversion files, see LearnedWords; empty: none.
  std::vector<std::filesystem::path> embeddings = {};
  /// Receives a log line about a prompt that was truncated.
  std::function<void(const std::string& note)> on_note = {};
};

/// Stable Diffusion XL's text encoders: states are those of both encoders' second-to-last layers,
/// concatenated along channels, f32 [n, 77, 768 + 1280]; pooled is the second encoder's projected
/// row at the end of the text, f32 [n, 1280]. Prompts with weights and long ones have several times
/// 77 rows, see encode_weighted. The second encoder reads a prompt's second text.
///
/// Files are opened and checked here; parameters are loaded for the first prompts, see ClipText.
/// Throws an Error with the folder if a file is missing or does not fit.
std::unique_ptr<TextEncoder> sdxl_text_encoder(const pjrt::Client& client,
                                               SdxlTextSettings settings);

}  // namespace kinema::encoders
