#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/encoders/text_encoder.h"
#include "kinema/io/json.h"
#include "kinema/models/clip/config.h"
#include "kinema/verification/run.h"

/// Kinds of cases. Each function computes named arrays from a case's arrays and adds them to the
/// run, which compares them. If it throws, the case fails.
namespace kinema::verification {

/// The function and limits for cases with these names.
struct Kind {
  /// Names, or patterns with `*`, separated by spaces.
  std::string_view cases;
  void (*compute)(const Run& run);
  /// Called once per form of the models, or only once.
  enum class Forms : uint8_t { EACH, ONE };
  Forms forms = Forms::ONE;
  /// In addition to the limits in a case's JSON.
  LimitTable limits = {};
  Limits::Which which = Limits::Which::LONGEST;
};

// The kinds by subject, one file each.
std::vector<Kind> network_kinds();
std::vector<Kind> controlnet_kinds();
std::vector<Kind> quantization_kinds();
std::vector<Kind> training_kinds();
std::vector<Kind> text_kinds();
std::vector<Kind> picture_kinds();
std::vector<Kind> schedule_kinds();
std::vector<Kind> pipeline_kinds();
std::vector<Kind> dreamer_kinds();

// Limits for cases without their own, as in the fixtures' README for float32.
inline constexpr Limit kExact{};
inline constexpr Limit kOutput{.absolute = 1e-4, .relative = 1e-4};
inline constexpr Limit kStates{.absolute = 1e-4};  // for encoders and autoencoders
inline constexpr Limit kScalar{.relative = 1e-4};
inline constexpr Limit kThousandth{.of_largest = 1e-3};

// Text in other kinds of cases: variants of UMT5, and captions of a data set.
void encode_umt5_variants(const Run& run);
void encode_captions(const Run& run);

/// Wan's text encoder from a pipeline's folder, for prompts of at most `max_sequence_length`
/// tokens.
std::shared_ptr<const encoders::TextEncoder> wan_text_encoder(const Run& run,
                                                              const std::filesystem::path& pipeline,
                                                              int64_t max_sequence_length,
                                                              bool batched = false);
/// The ids of a pipeline's prompts in the chat of Qwen3, as the case's `PREFIXids` and
/// `PREFIXmask`.
void add_chat_ids(const Run& run, const std::filesystem::path& tokenizer,
                  const std::string& prefix);
/// Qwen3 of a file on the case's `ids`: `qwen3.prompt_embeds`.
void encode_qwen3_file(const Run& run, const std::filesystem::path& file,
                       const std::filesystem::path& config);
/// CLIP's text encoder on the case's tensor `ids`: `last_hidden_state`, `penultimate`, `pooled`,
/// with a projection also `text_embeds`, and the case's taps `tap.NAME`.
Values clip_states(const Run& run, const model_files::Checkpoint& files,
                   const clip::TextConfig& config, std::span<const weights::Adapter> adapters = {});

}  // namespace kinema::verification
