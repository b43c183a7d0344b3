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
#include "kinema/models/t5/encoder.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"
#include "kinema/text/tokenizer.h"

namespace kinema::encoders {

/// Files and options of a T5 or UMT5 encoder; the defaults are Wan's.
struct T5Settings {
  std::filesystem::path model;      // `text_encoder` of a pipeline, or a file
  std::filesystem::path tokenizer;  // `tokenizer` of a pipeline, or a file with one
  /// The model to read from a file that contains several.
  std::string_view part = model_files::kTextEncoder;
  /// Rows of the result; further tokens are dropped.
  int64_t max_sequence_length = 512;
  /// Width that the transformer expects; 0: any.
  int64_t width = 0;
  /// Several prompts in one array; if false, one after the other.
  bool batched = false;
  TextEncoderMemory memory = TextEncoderMemory::AUTO;
  t5::EncoderOptions options;
  runtime::ProgramOptions program;
  /// Receives a log line about a prompt that was truncated.
  std::function<void(const std::string& note)> on_note = {};
  /// Merged into the weights of the blocks.
  std::vector<weights::Adapter> adapters = {};
  /// Prompts are cleaned as in Wan's pipelines.
  bool clean = true;
  /// Padding is masked, and its rows of the result are zero. If false, padding is attended to:
  /// prompts run with their full length, which changes every row, and padding's rows are kept.
  bool masked = true;
};

/// The tokens of a prompt, with the end of the sequence.
struct T5Sequence {
  std::vector<int64_t> ids;  // at most max_sequence_length
  /// True for tokens that no token attends to; empty: none.
  std::vector<bool> masked = {};

  bool operator==(const T5Sequence&) const = default;
};

/// Prompts to the states of T5 or UMT5.
///
/// The constructor opens and checks the files; parameters are read once per call for all of its
/// prompts, see EncoderBlocks. Encoded prompts are cached, so that the same negative prompt is
/// encoded once. Thread-safe.
class T5States {
 public:
  /// Throws an Error with the folder if a file is missing or does not fit.
  T5States(const pjrt::Client& client, T5Settings settings);

  /// f32 [max_sequence_length, d_model].
  Shape shape() const;
  /// f32 [n, max_sequence_length, d_model]. Throws an Error for text that is not UTF-8.
  HostArray encode(std::span<const std::string> prompts);
  HostArray encode(std::span<const T5Sequence> sequences);
  /// See TextEncoder.
  int64_t memory_bytes(std::span<const std::string> prompts);
  int64_t memory_bytes(std::span<const T5Sequence> sequences);
  /// The token ids of a part of a prompt, cleaned as the settings say, without the end; all of
  /// them.
  std::vector<int64_t> tokens(const std::string& text) const;
  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  /// Calls on_note for a prompt with this many tokens too many.
  void note_dropped(int64_t tokens) const;
  void release();

 private:
  /// A cache of recent prompts' states, without the padding.
  class Memory {
   public:
    /// f32 [rows, d], or null.
    const HostArray* find(const T5Sequence& ids) const;
    void add(const T5Sequence& ids, HostArray states) {
      entries_.emplace_back(ids, std::move(states));
    }
    /// Removes the oldest entries, down to `kept`.
    void trim(size_t kept);

   private:
    std::deque<std::pair<T5Sequence, HostArray>> entries_;
  };

  T5Sequence tokenize(const std::string& prompt, bool warn_if_truncated) const;
  std::vector<T5Sequence> not_remembered(std::span<const T5Sequence> all) const;
  void encode_new(std::span<const T5Sequence> all);
  int64_t run_length(std::span<const T5Sequence> prompts) const;
  HostArray embed(std::span<const T5Sequence> prompts, int64_t length) const;
  std::vector<std::span<const T5Sequence>> batches(std::span<const T5Sequence> prompts) const;
  BlocksInput input_of(std::span<const T5Sequence> prompts) const;
  void run(std::span<const T5Sequence> prompts);

  T5Settings settings_;
  text::Tokenizer tokenizer_;
  model_files::Checkpoint files_;  // stays open: embeddings and streamed blocks are read from it
  t5::EncoderConfig config_;

  // The cache between calls; guarded by the mutex.
  std::mutex mutex_;
  EncoderBlocks blocks_;
  Memory memory_;
};

}  // namespace kinema::encoders
