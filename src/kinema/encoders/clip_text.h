#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/models/clip/config.h"
#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"
#include "kinema/text/clip_tokenizer.h"
#include "kinema/weights/checkpoint.h"
#include "kinema/weights/lora.h"

namespace kinema::encoders {

/// Files and options of CLIP's text model.
struct ClipTextSettings {
  std::filesystem::path model;      // `text_encoder` or `text_encoder_2` of a pipeline, or a file
  std::filesystem::path tokenizer;  // `tokenizer` or `tokenizer_2`
  /// The model to read from a file that contains both.
  std::string_view part = weights::kTextEncoder;
  /// The layer of `hidden`, counted from the end: -2 is the last but one.
  int64_t hidden_layer = -2;
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
    HostArray hidden;       // [n, t, d]: of the requested layer, without the final norm
    HostArray pooled;       // [n, d]: the last layer's row at the prompt's end, with the final norm
    HostArray text_embeds;  // [n, p]: its projection; without bytes if the model has none
  };
  /// `hidden_layers` has one layer per prompt; if empty, the settings' layer is used. Throws an
  /// Error for text that is not UTF-8.
  States encode(std::span<const std::string> prompts, std::span<const int64_t> hidden_layers = {});

  /// t: the length in the tokenizer's folder, or all positions of the model.
  int64_t length() const { return length_; }
  const clip::TextConfig& config() const { return config_; }
  /// See TextEncoder.
  int64_t memory_bytes();
  void release();

 private:
  std::vector<int64_t> tokenize(const std::string& prompt) const;
  const runtime::Program& program(int64_t hidden_layer);

  ClipTextSettings settings_;
  text::ClipTokenizer tokenizer_;
  weights::Checkpoint files_;  // stays open: embeddings are read from it
  clip::TextConfig config_;
  std::string prefix_;
  int64_t length_;
  pjrt::Client client_;
  std::mutex mutex_;  // guards the members below
  std::vector<pjrt::Buffer> params_;
  std::map<int64_t, runtime::Program> programs_;  // by the hidden layer of their result
};

}  // namespace kinema::encoders
