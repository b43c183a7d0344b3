#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "kinema/core/dtype.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/preparation/tensor_store.h"

namespace kinema::preparation {

/// For one caption: states f32 [t, d], and pooled [p] if the encoder has it; or token ids.
using EncodeText = std::function<encoders::TextStates(const std::string& caption)>;

/// A cache of text states in a folder, by caption and the settings that determine them.
class EncodedText {
 public:
  /// Stored as `dtype`, F32 or BF16; integers as they are.
  EncodedText(const std::filesystem::path& folder, Settings settings, DType dtype);

  TensorStore::Found find(const std::string& caption) const;
  /// Throws an Error if they are not finite, or if the disk fails.
  void write(const std::string& caption, const encoders::TextStates& text) const;
  /// Throws an Error if they do not exist or are corrupt.
  encoders::TextStates read(const std::string& caption) const;
  /// The same, but missing or corrupt states are encoded and stored first.
  encoders::TextStates read_or(const std::string& caption, const EncodeText& make) const;

 private:
  Settings key(const std::string& caption) const;

  TensorStore store_;
  Settings settings_;
  DType dtype_;
};

}  // namespace kinema::preparation
