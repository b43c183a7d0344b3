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

/// Where CLIP's text side lies and how it is run.
struct ClipTextSettings {
  std::filesystem::path model;      // `text_encoder` or `text_encoder_2` of a pipeline, or a file
  std::filesystem::path tokenizer;  // `tokenizer` or `tokenizer_2`
  /// Which of the two, in a file that holds both.
  std::string_view part = weights::kTextEncoder;
  /// Of which layer `hidden` is, counted from the end: -2 is the last but one.
  int64_t hidden_layer = -2;
  /// Weights and activations; norms stay f32. Files of another dtype are converted as they are
  /// read.
  DType dtype = DType::F32;
  Precision precision = Precision::HIGHEST;
  bool scan_layers = true;
  runtime::ProgramOptions program = {};
  /// Are merged into the weights.
  std::vector<weights::Adapter> adapters = {};
  /// Called with a line about a prompt that was cut.
  std::function<void(const std::string& note)> on_note = {};
};

/// Prompts as the states of CLIP's text side. They are not cleaned, and padded to the full length:
/// no token sees the padding behind it.
///
/// Files are opened and checked when it is made; the program is compiled and the parameters are
/// loaded when the first prompt comes, the parameters again for the first one after release(). A
/// prompt has the same bits whatever comes with it. Safe to use from several threads.
class ClipText {
 public:
  /// Throws an Error naming the folder and what is wrong with it.
  ClipText(const pjrt::Client& client, ClipTextSettings settings);

  /// All f32.
  struct States {
    HostArray hidden;       // [n, t, d]: of the layer asked for, without the final norm
    HostArray pooled;       // [n, d]: of the last one, with it, at the prompt's end
    HostArray text_embeds;  // [n, p]: its projection; without bytes for models that have none
  };
  /// `hidden_layers` has the layer for each prompt; empty: that of the settings. Throws an Error
  /// for text that is not UTF-8.
  States encode(std::span<const std::string> prompts, std::span<const int64_t> hidden_layers = {});

  /// t: what the tokenizer's folder says, or all positions of the model.
  int64_t length() const { return length_; }
  const clip::TextConfig& config() const { return config_; }
  /// As TextEncoder has it.
  int64_t memory_bytes();
  void release();

 private:
  std::vector<int64_t> tokenize(const std::string& prompt) const;
  const runtime::Program& program(int64_t hidden_layer);

  ClipTextSettings settings_;
  text::ClipTokenizer tokenizer_;
  weights::Checkpoint files_;  // stays open: embeddings come from it
  clip::TextConfig config_;
  std::string prefix_;
  int64_t length_;
  pjrt::Client client_;
  std::mutex mutex_;  // of what follows
  std::vector<pjrt::Buffer> params_;
  std::map<int64_t, runtime::Program> programs_;  // by the hidden layer that they give
};

}  // namespace kinema::encoders
