#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "kinema/encoders/clip_text.h"
#include "kinema/encoders/t5_states.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/encoders/text_files.h"

namespace kinema::encoders {

/// Files and options of a Flux.1 pipeline's text encoders.
struct FluxTextSettings {
  std::filesystem::path pipeline;  // with text_encoder, tokenizer, text_encoder_2, tokenizer_2
  /// Used instead of the pipeline's: CLIP and T5.
  std::optional<TextFiles> first = {};
  std::optional<TextFiles> second = {};
  /// Rows of T5's states: 512 for dev, 256 for schnell, 1 to 512. Padding is attended to, so the
  /// length changes all rows.
  int64_t max_sequence_length = 512;
  /// Widths that the transformer expects of text states and pooled text; 0: any.
  int64_t width = 0;
  int64_t pooled_width = 0;
  /// T5: several prompts in one array, memory of its parameters, dtypes.
  bool batched = false;
  TextEncoderMemory memory = TextEncoderMemory::AUTO;
  t5::EncoderOptions options;
  /// CLIP.
  DType clip_dtype = DType::F32;
  std::vector<weights::Adapter> clip_adapters = {};
  std::vector<weights::Adapter> t5_adapters = {};
  runtime::ProgramOptions program;
  /// Textual inversion files of CLIP, see LearnedWords; empty: none.
  std::vector<std::filesystem::path> embeddings = {};
  /// Receives a log line about a prompt that was truncated.
  std::function<void(const std::string& note)> on_note = {};
};

/// Flux.1's text encoders: states are T5's for the prompt's second text, f32 [n,
/// max_sequence_length, d_model], including padding; pooled is CLIP's row at the end of its first
/// text, f32 [n, hidden_size]. Weights of prompts apply to T5's states, see encode_weighted; the
/// pooled row of a prompt with weights is that of its first sequence, or in compel's syntax that of
/// its text without syntax.
///
/// Files are opened and checked here; parameters are loaded for the first prompts, see T5States and
/// ClipText. Throws an Error with the folder if a file is missing or does not fit.
std::unique_ptr<TextEncoder> flux_text_encoder(const pjrt::Client& client,
                                               FluxTextSettings settings);

}  // namespace kinema::encoders
