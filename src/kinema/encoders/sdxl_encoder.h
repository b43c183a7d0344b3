#pragma once

#include <memory>

#include "kinema/encoders/clip_text.h"
#include "kinema/encoders/text_encoder.h"

namespace kinema::encoders {

/// The text encoders of a Stable Diffusion XL pipeline and how they are run.
struct SdxlTextSettings {
  std::filesystem::path pipeline;  // with text_encoder, tokenizer, text_encoder_2, tokenizer_2
  /// A single file that holds both encoders in the place of the pipeline's; empty: none.
  std::filesystem::path file = {};
  /// So many layers more than the last one are left out; of negative prompts none (diffusers,
  /// StableDiffusionXLPipeline.encode_prompt).
  int64_t clip_skip = 0;
  /// Widths that the network expects of states and pooled; 0: any.
  int64_t width = 0;
  int64_t pooled_width = 0;
  DType dtype = DType::F32;
  Precision precision = Precision::HIGHEST;
  bool scan_layers = true;
  runtime::ProgramOptions program = {};
  /// Of the first encoder and of the second.
  std::vector<weights::Adapter> adapters = {};
  std::vector<weights::Adapter> adapters_2 = {};
  /// Called with a line about a prompt that was cut.
  std::function<void(const std::string& note)> on_note = {};
};

/// Stable Diffusion XL's text: states are those of both encoders' last layer but one, joined by
/// channels, f32 [n, 77, 768 + 1280]; pooled is the projected row at the end of the second's text,
/// f32 [n, 1280]. The second encoder reads a prompt's second text.
///
/// Files are opened and checked here; parameters are read when prompts come, see ClipText. Throws
/// an Error naming the folder and what is wrong with it.
std::unique_ptr<TextEncoder> sdxl_text_encoder(const pjrt::Client& client,
                                               SdxlTextSettings settings);

}  // namespace kinema::encoders
