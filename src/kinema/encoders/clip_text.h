#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/encoders/text_files.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/models/clip/config.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"
#include "kinema/text/clip_tokenizer.h"
#include "kinema/weights/lora.h"

namespace kinema::encoders {

/// Files and options of CLIP's text model.
struct ClipTextSettings {
  std::filesystem::path model;      // `text_encoder` or `text_encoder_2` of a pipeline, or a file
  std::filesystem::path tokenizer;  // `tokenizer` or `tokenizer_2`
  /// The model to read from a file that contains both.
  std::string_view part = model_files::kTextEncoder;
  /// The config.json of another encoder of the same sizes, for a file that does not tell its number
  /// of heads; empty: none.
  std::filesystem::path config = {};
  /// The layer of `hidden`, counted from the end: -2 is the last but one.
  int64_t hidden_layer = -2;
  bool hidden_norm = false;  // `hidden` gets the final norm
  /// Of weights and activations; norms are f32. Files of another dtype are converted while they are
  /// read.
  DType dtype = DType::F32;
  Precision precision = Precision::HIGHEST;
  bool scan_layers = true;
  runtime::ProgramOptions program = {};
  /// Merged into the weights.
  std::vector<weights::Adapter> adapters = {};
  /// Receives a log line about a prompt that was truncated.
  std::function<void(const std::string& note)> on_note = {};
};

/// The sizes of CLIP's text model and the prefix of its keys, and the tokens of a prompt with
/// start, end and padding: as the tokenizer says, else all positions.
struct ClipTextModel {
  clip::TextConfig config;
  std::string prefix;
  int64_t length = 0;
};
/// Reads them from the model's files. Throws an Error if a tensor is missing or does not fit.
ClipTextModel clip_text_model(const TextFiles& files);

/// The tokens of one run of the model.
struct ClipSequence {
  /// A row that replaces that of the embedding table, f32 [hidden_size]; valid during the call.
  struct Row {
    int64_t position = 0;
    std::span<const float> values;
  };
  std::vector<int64_t> ids;  // ClipText::length() of them
  std::vector<Row> rows = {};
  /// True for tokens that no token attends to; empty: none.
  std::vector<bool> masked = {};
};

/// Prompts to the states of CLIP's text model. Prompts are not cleaned, and padded to the full
/// length: no token attends to the padding after it.
///
/// The constructor opens and checks the files. The program is compiled and the parameters are
/// loaded for the first prompt; after release() the next prompt loads the parameters again. A
/// prompt's states are bit-identical in any batch. Thread-safe.
class ClipText {
 public:
  /// Throws an Error with the folder if a file is missing or does not fit.
  ClipText(const pjrt::Client& client, ClipTextSettings settings);

  /// All are f32.
  struct States {
    HostArray hidden;       // [n, t, d]: of the requested layer
    HostArray pooled;       // [n, d]: the last layer's row at the prompt's end, with the final norm
    HostArray text_embeds;  // [n, p]: its projection; without bytes if the model has none
  };
  /// `hidden_layers` has one layer per prompt; if empty, the settings' layer is used. Throws an
  /// Error for text that is not UTF-8.
  States encode(std::span<const std::string> prompts, std::span<const int64_t> hidden_layers = {});

  /// The same for token ids.
  States encode(std::span<const ClipSequence> sequences, std::span<const int64_t> hidden_layers);

  const text::ClipTokenizer& tokenizer() const { return tokenizer_; }
  /// Calls on_note.
  void note(const std::string& line) const;
  /// The settings' layer.
  int64_t hidden_layer() const { return settings_.hidden_layer; }
  /// t: the length in the tokenizer's folder, or all positions of the model.
  int64_t length() const { return length_; }
  const clip::TextConfig& config() const { return config_; }
  /// See TextEncoder.
  int64_t memory_bytes();
  void release();

 private:
  std::vector<int64_t> tokenize(const std::string& prompt) const;
  pjrt::Buffer embed(const ClipSequence& sequence) const;
  const runtime::Program& program(int64_t hidden_layer, bool masked = false);

  ClipTextSettings settings_;
  text::ClipTokenizer tokenizer_;
  model_files::Checkpoint files_;  // stays open: embeddings are read from it
  clip::TextConfig config_;
  std::string prefix_;
  int64_t length_;
  pjrt::Client client_;
  std::mutex mutex_;  // guards the members below
  std::vector<pjrt::Buffer> params_;
  // By the hidden layer of their result, and whether tokens are masked.
  std::map<std::pair<int64_t, bool>, runtime::Program> programs_;
};

}  // namespace kinema::encoders
