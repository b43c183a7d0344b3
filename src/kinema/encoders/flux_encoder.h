#pragma once

#include <memory>

#include "kinema/encoders/clip_text.h"
#include "kinema/encoders/t5_states.h"
#include "kinema/encoders/text_encoder.h"

namespace kinema::encoders {

/// The text encoders of a Flux.1 pipeline and how they are run.
struct FluxTextSettings {
  std::filesystem::path pipeline;  // with text_encoder, tokenizer, text_encoder_2, tokenizer_2
  /// Rows of T5's states: 512 for dev, 256 for schnell, 1 to 512. Padding takes part, so it changes
  /// all of them.
  int64_t max_sequence_length = 512;
  /// Widths that the transformer expects of states and pooled; 0: any.
  int64_t width = 0;
  int64_t pooled_width = 0;
  /// Of T5: several prompts in one array, where its parameters are, its dtypes.
  bool batched = false;
  TextEncoderMemory memory = TextEncoderMemory::AUTO;
  t5::EncoderOptions options;
  /// Of CLIP.
  DType clip_dtype = DType::F32;
  std::vector<weights::Adapter> clip_adapters = {};
  std::vector<weights::Adapter> t5_adapters = {};
  runtime::ProgramOptions program;
  /// Called with a line about a prompt that was cut.
  std::function<void(const std::string& note)> on_note = {};
};

/// Flux.1's text: states are T5's of the prompt's second text, f32 [n, max_sequence_length,
/// d_model], padding included; pooled is CLIP's row at the end of its first, f32 [n, hidden_size].
///
/// Files are opened and checked here; parameters are read when prompts come, see T5States and
/// ClipText. Throws an Error naming the folder and what is wrong with it.
std::unique_ptr<TextEncoder> flux_text_encoder(const pjrt::Client& client,
                                               FluxTextSettings settings);

}  // namespace kinema::encoders
