#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/text/hashed.h"
#include "kinema/text/prompt_syntax.h"

namespace kinema::encoders {

/// The text of one sample.
struct Prompt {
  std::string text;
  /// Text for the second of two encoders, if different.
  std::optional<std::string> second = {};
  /// Negative prompts: no layer is skipped for them.
  bool is_negative = false;
  /// Of both texts.
  text::PromptSyntax syntax = text::PromptSyntax::PLAIN;

  const std::string& for_second() const { return second ? *second : text; }
  bool operator==(const Prompt&) const = default;
};

/// A prompt up to a step of the sampler, counted from 1.
struct PromptUntil {
  int64_t last_step = 0;
  Prompt prompt;
};
/// The prompts of a sampler's steps (text::prompt_schedule for A1111's syntax); most prompts are
/// the same at all steps.
std::vector<PromptUntil> prompts_by_step(const Prompt& prompt, int64_t steps);

/// The results of a text encoder.
struct TextStates {
  HostArray states;  // f32 [n, t, d]
  HostArray pooled;  // f32 [n, p]; without bytes for encoders that do not pool
};

/// One prompt's entry, without the first axis.
TextStates row(const TextStates& all, int64_t i);

/// Encodes prompts as the transformer's text states.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  /// For reports: `hashed`.
  virtual std::string name() const = 0;
  /// f32 [t, d], the states of a prompt without syntax.
  virtual Shape shape() const = 0;
  /// Rows of the states of these prompts that a network reads: t of encode's results, which is at
  /// least shape()'s, or fewer if padding is read by none.
  virtual int64_t rows(std::span<const Prompt> /*prompts*/) const { return shape().dims[0]; }
  /// f32 [p], the pooled text; without dimensions if nothing is pooled.
  virtual Shape pooled_shape() const { return {}; }

  /// Rows after a prompt's end are zeros or the model's padding states.
  TextStates encode(std::span<const Prompt> prompts) const { return encode_prompts(prompts); }
  /// The same text for every encoder.
  TextStates encode(std::span<const std::string> prompts) const;

  /// Peak bytes of device memory for encoding these prompts, including parameters. Compiles the
  /// programs, loads nothing.
  int64_t memory_bytes(std::span<const Prompt> prompts) const { return prompts_bytes(prompts); }
  int64_t memory_bytes(std::span<const std::string> prompts) const;

  /// Frees the memory of the parameters for the transformer; the next encode loads them again.
  virtual void release() const {}

 private:
  virtual TextStates encode_prompts(std::span<const Prompt> prompts) const = 0;
  virtual int64_t prompts_bytes(std::span<const Prompt> /*prompts*/) const { return 0; }
};

/// The texts of prompts for a single encoder. Throws an Error with `encoder` if a prompt has a text
/// for a second one.
std::vector<std::string> single_texts(std::span<const Prompt> prompts, const std::string& encoder);

/// Caches the states of the last call's prompts and then frees the encoder's memory: for prompts
/// that are used repeatedly.
std::unique_ptr<TextEncoder> remembering(std::shared_ptr<const TextEncoder> encoder);

/// Fixed random vectors for words. `on_note` receives a log line about prompts with too many words.
std::unique_ptr<TextEncoder> hashed_text_encoder(
    const text::HashedEncoder& settings, std::function<void(const std::string&)> on_note = {});

}  // namespace kinema::encoders
