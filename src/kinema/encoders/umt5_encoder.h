#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "kinema/encoders/t5_blocks.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"

namespace kinema::encoders {

/// Where UMT5 lies and how it is run.
struct T5Settings {
  std::filesystem::path model;      // `text_encoder` of a pipeline
  std::filesystem::path tokenizer;  // `tokenizer` of a pipeline
  /// Rows of the result; tokens that do not fit are dropped.
  int64_t max_sequence_length = 512;
  /// Width that the transformer expects; 0: any.
  int64_t width = 0;
  /// Several prompts in one array, instead of one after the other.
  bool batched = false;
  TextEncoderMemory memory = TextEncoderMemory::AUTO;
  t5::EncoderOptions options;
  runtime::ProgramOptions program;
  /// Called with a line about a prompt that was cut.
  std::function<void(const std::string& note)> on_note = {};
};

/// UMT5 as Wan's pipelines use it: the prompt is cleaned, tokenized, encoded under its mask; rows
/// behind its end are zero.
///
/// Files are opened and checked here; parameters are read when prompts come, see T5Blocks: the
/// prompts of a call share one reading. Encoded prompts are remembered, so the same negative prompt
/// costs once. Throws an Error naming the folder and what is wrong with it.
std::unique_ptr<TextEncoder> umt5_text_encoder(const pjrt::Client& client, T5Settings settings);

}  // namespace kinema::encoders
