#pragma once

#include <memory>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/text/hashed.h"

namespace kinema::encoders {

/// What turns prompts into the transformer's context.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  /// `hashed`, for reports.
  virtual std::string name() const = 0;
  /// f32 [t, d] of a prompt, whichever it is.
  virtual Shape shape() const = 0;
  /// f32 [n, t, d], zeros behind the end of each prompt.
  virtual HostArray encode(std::span<const std::string> prompts) const = 0;
  /// Bytes that encode would take of the device at its largest, parameters included; compiles the
  /// programs for these prompts, and loads nothing.
  virtual int64_t memory_bytes(std::span<const std::string> /*prompts*/) const { return 0; }
  /// Gives the parameters' memory back, so that the transformer has it; the next encode loads them
  /// again.
  virtual void release() const {}
};

/// Keeps the states of the prompts that it was last asked for, and gives the encoder's memory back
/// as soon as it has them: for prompts that come again and again.
std::unique_ptr<TextEncoder> remembering(std::shared_ptr<const TextEncoder> encoder);

/// Fixed random vectors for words.
std::unique_ptr<TextEncoder> hashed_text_encoder(const text::HashedEncoder& settings);

}  // namespace kinema::encoders
