#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/encoders/encoder_blocks.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/models/qwen3/encoder.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"
#include "kinema/text/qwen_tokenizer.h"

namespace kinema::encoders {

/// Files and options of a Qwen3 text encoder; the defaults are Z-Image's.
struct Qwen3Settings {
  std::filesystem::path model;      // `text_encoder` of a pipeline, or a file
  std::filesystem::path tokenizer;  // `tokenizer` of a pipeline
  /// The model to read from a file that contains several.
  std::string_view part = model_files::kTextEncoder;
  /// A config.json with the sizes of a file that does not tell all of them; empty: none.
  std::filesystem::path config = {};
  /// Rows of the result; further tokens are dropped from the end of the chat's text.
  int64_t max_sequence_length = 512;
  /// Width that the transformer expects; 0: any.
  int64_t width = 0;
  TextEncoderMemory memory = TextEncoderMemory::AUTO;
  qwen3::EncoderOptions options;
  runtime::ProgramOptions program;
  /// Receives a log line about a prompt that was truncated.
  std::function<void(const std::string& note)> on_note = {};
  /// Merged into the weights of the blocks.
  std::vector<weights::Adapter> adapters = {};
};

/// Prompts to the states of Qwen3: each as the message of a user in the chat template, alone and
/// without padding.
///
/// The constructor opens and checks the files; parameters are read once per call for all of its
/// prompts, see EncoderBlocks; those of the skipped layers never. Encoded prompts are cached.
/// Thread-safe.
class Qwen3States {
 public:
  /// Throws an Error with the folder if a file is missing or does not fit.
  Qwen3States(const pjrt::Client& client, Qwen3Settings settings);

  /// f32 [max_sequence_length, hidden_size].
  Shape shape() const;
  /// f32 [n, max_sequence_length, hidden_size]; rows after a prompt's own are zero. Throws an Error
  /// for text that is not UTF-8.
  HostArray encode(std::span<const std::string> prompts);
  /// Tokens of the longest of these prompts, rounded up to a multiple of `multiple`, at most
  /// max_sequence_length rounded up.
  int64_t rows(std::span<const std::string> prompts, int64_t multiple) const;
  /// See TextEncoder.
  int64_t memory_bytes(std::span<const std::string> prompts);
  void release();

 private:
  using Ids = std::vector<int64_t>;

  Ids tokenize(const std::string& prompt, bool warn_if_truncated) const;
  const HostArray* find(const Ids& ids) const;
  std::vector<Ids> not_remembered(std::span<const Ids> all) const;
  int64_t run_length(const Ids& ids) const;
  void run(std::span<const Ids> prompts);

  Qwen3Settings settings_;
  text::QwenTokenizer tokenizer_;
  model_files::Checkpoint files_;  // stays open: embeddings and streamed blocks are read from it
  qwen3::EncoderConfig config_;

  // The cache between calls; guarded by the mutex.
  std::mutex mutex_;
  EncoderBlocks blocks_;
  std::deque<std::pair<Ids, HostArray>> memory_;  // recent prompts' states
};

}  // namespace kinema::encoders
