#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kinema/encoders/text_encoder.h"
#include "kinema/text/clip_tokenizer.h"

namespace kinema::encoders {

/// A word whose rows are trained (textual inversion): the ids of its rows replace its name.
struct TrainedWord {
  std::string name;
  int64_t first_id = 0;
  int64_t rows = 1;
};

/// Captions as token ids, for networks that run CLIP themselves (networks::with_text).
struct ClipIdsSettings {
  /// Of each encoder.
  std::vector<text::ClipTokenizer> tokenizers;
  std::vector<std::vector<TrainedWord>> words;  // of each; empty: none
  int64_t length = 77;                          // of a prompt
  /// An encoder whose states are kept, and whose pooled text is replaced by ids (Flux: T5); null:
  /// ids instead of states.
  std::shared_ptr<const TextEncoder> states = nullptr;
  /// Receives a log line about a prompt that was truncated.
  std::function<void(const std::string& note)> on_note = {};
};

/// States S32 [n, length, encoders], or with `states` the pooled text S32 [n, length].
std::unique_ptr<TextEncoder> clip_ids_encoder(ClipIdsSettings settings);

}  // namespace kinema::encoders
