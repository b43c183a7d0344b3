#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/encoders/t5_blocks.h"
#include "kinema/io/model_folder.h"
#include "kinema/models/t5/encoder.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"
#include "kinema/text/tokenizer.h"

namespace kinema::encoders {

/// Where an encoder of T5 or UMT5 lies and how it is run; the defaults are Wan's.
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
  /// Merged into the weights of the blocks.
  std::vector<weights::Adapter> adapters = {};
  /// Prompts are cleaned as Wan's pipelines do.
  bool clean = true;
  /// Padding is masked, and its rows are zero. Without, it takes part: prompts run in their full
  /// length, which changes every row, and the rows of padding are kept.
  bool masked = true;
};

/// Prompts as the states of T5 or UMT5.
///
/// Files are opened and checked when it is made; parameters are read when prompts come, see
/// T5Blocks: the prompts of a call share one reading. Encoded prompts are remembered, so the same
/// negative prompt costs once. Safe to use from several threads.
class T5States {
 public:
  /// Throws an Error naming the folder and what is wrong with it.
  T5States(const pjrt::Client& client, T5Settings settings);

  /// f32 [max_sequence_length, d_model].
  Shape shape() const;
  /// f32 [n, max_sequence_length, d_model]. Throws an Error for text that is not UTF-8.
  HostArray encode(std::span<const std::string> prompts);
  /// As TextEncoder has it.
  int64_t memory_bytes(std::span<const std::string> prompts);
  void release();

 private:
  using Ids = std::vector<int64_t>;

  /// States of prompts encoded lately, without the zeros behind them.
  class Memory {
   public:
    /// f32 [rows, d], or null.
    const HostArray* find(const Ids& ids) const;
    void add(const Ids& ids, HostArray states) { entries_.emplace_back(ids, std::move(states)); }
    /// Forgets the oldest beyond what is kept between calls.
    void trim(size_t kept);

   private:
    std::deque<std::pair<Ids, HostArray>> entries_;
  };

  Ids tokenize(const std::string& prompt, bool says_what_is_cut) const;
  std::vector<Ids> not_remembered(const std::vector<Ids>& all) const;
  void encode_new(const std::vector<Ids>& all);
  int64_t run_length(std::span<const Ids> prompts) const;
  HostArray embed(std::span<const Ids> prompts, int64_t length) const;
  std::vector<std::span<const Ids>> batches(std::span<const Ids> prompts) const;
  T5Input input_of(std::span<const Ids> prompts) const;
  void run(std::span<const Ids> prompts);

  T5Settings settings_;
  text::Tokenizer tokenizer_;
  io::ModelFolder files_;  // stays open: embeddings and streamed blocks come from it
  t5::EncoderConfig config_;

  // What a call leaves for the next; guarded by the mutex.
  std::mutex mutex_;
  T5Blocks blocks_;
  Memory memory_;
};

}  // namespace kinema::encoders
