#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "kinema/core/dtype.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/preparation/tensor_store.h"

namespace kinema::preparation {

/// Of one caption: states f32 [t, d], and pooled [p] where the encoder has them.
using EncodeText = std::function<encoders::TextStates(const std::string& caption)>;

/// Text states kept in a folder, by caption and by what decides them beside it.
class EncodedText {
 public:
  /// Kept as `dtype`, F32 or BF16.
  EncodedText(const std::filesystem::path& folder, Settings settings, DType dtype);

  TensorStore::Found find(const std::string& caption) const;
  /// Throws an Error when they are not finite, or the disk refuses.
  void write(const std::string& caption, const encoders::TextStates& text) const;
  /// Throws an Error when they are not there or damaged.
  encoders::TextStates read(const std::string& caption) const;
  /// The same, made and kept first where they are not there or damaged.
  encoders::TextStates read_or(const std::string& caption, const EncodeText& make) const;

 private:
  Settings key(const std::string& caption) const;

  TensorStore store_;
  Settings settings_;
  DType dtype_;
};

}  // namespace kinema::preparation
