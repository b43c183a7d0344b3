#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/text/hashed.h"

namespace kinema::encoders {

/// The words for one result.
struct Prompt {
  std::string text;
  /// What the second of two encoders reads, where that is something else.
  std::optional<std::string> second = {};
  /// What guidance leads away from, of which no layer is skipped.
  bool is_negative = false;

  const std::string& for_second() const { return second ? *second : text; }
  bool operator==(const Prompt&) const = default;
};

/// What a model reads of prompts.
struct TextStates {
  HostArray states;  // f32 [n, t, d]
  HostArray pooled;  // f32 [n, p]; without bytes for encoders that have none
};

/// Those of one prompt among several, without the first axis.
TextStates row(const TextStates& all, int64_t i);

/// What turns prompts into the transformer's context.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  /// `hashed`, for reports.
  virtual std::string name() const = 0;
  /// f32 [t, d] of a prompt, whichever it is.
  virtual Shape shape() const = 0;
  /// f32 [p] of a prompt; without dimensions where nothing is pooled.
  virtual Shape pooled_shape() const { return {}; }

  /// Rows behind the end of a prompt are zeros, or what the model's own padding gives.
  TextStates encode(std::span<const Prompt> prompts) const { return encode_prompts(prompts); }
  /// Every encoder reads the same.
  TextStates encode(std::span<const std::string> prompts) const;

  /// Bytes that encode would take of the device at its largest, parameters included; compiles the
  /// programs for these prompts, and loads nothing.
  int64_t memory_bytes(std::span<const Prompt> prompts) const { return prompts_bytes(prompts); }
  int64_t memory_bytes(std::span<const std::string> prompts) const;

  /// Gives the parameters' memory back, so that the transformer has it; the next encode loads them
  /// again.
  virtual void release() const {}

 private:
  virtual TextStates encode_prompts(std::span<const Prompt> prompts) const = 0;
  virtual int64_t prompts_bytes(std::span<const Prompt> /*prompts*/) const { return 0; }
};

/// The texts of prompts for one encoder. Throws an Error naming the encoder where a prompt has
/// another for a second one.
std::vector<std::string> single_texts(std::span<const Prompt> prompts, const std::string& encoder);

/// Keeps the states of the prompts that it was last asked for, and gives the encoder's memory back
/// as soon as it has them: for prompts that come again and again.
std::unique_ptr<TextEncoder> remembering(std::shared_ptr<const TextEncoder> encoder);

/// Fixed random vectors for words. `on_note` is told of prompts with more words than there is room
/// for.
std::unique_ptr<TextEncoder> hashed_text_encoder(
    const text::HashedEncoder& settings, std::function<void(const std::string&)> on_note = {});

}  // namespace kinema::encoders
