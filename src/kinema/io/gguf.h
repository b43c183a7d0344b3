#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/io/ggml_blocks.h"
#include "kinema/io/mapped_file.h"
#include "kinema/io/safetensors.h"

namespace kinema::io {

/// A GGUF file (versions 2 and 3), validated completely when opened: every name, count, size and
/// offset against the file's bytes.
///
/// Tensors are those of safetensors: axes outermost first; BF16 and F16 unchanged, quantized ones
/// F32 with a `decode`.
class GgufFile {
 public:
  /// Throws an Error with the file and the problem, or with the unsupported type.
  static GgufFile open(const std::filesystem::path& path);
  /// The same checks over bytes in memory, which must outlive the result.
  static GgufFile parse(std::span<const std::byte> bytes, const std::string& source);

  const std::vector<TensorView>& tensors() const { return tensors_; }
  /// Metadata whose values are text: `general.architecture`, ...
  const std::map<std::string, std::string>& texts() const { return texts_; }
  /// The position of the file in a model that is split over several (llama.cpp's gguf-split).
  struct Split {
    int64_t number = 0;  // from 0
    int64_t count = 1;
    int64_t tensors = -1;  // of all files; -1: unknown
  };
  const Split& split() const { return split_; }
  const std::string& path() const { return path_; }
  void check_intact() const { file_.check_intact(); }
  /// Throws an Error with the first tensor that has a non-finite scale; reads all blocks.
  void check_scales() const;

 private:
  friend class GgufReader;
  std::string path_;
  MappedFile file_;
  std::vector<TensorView> tensors_;
  std::vector<GgmlType> types_;  // of the tensors
  std::map<std::string, std::string> texts_;
  Split split_;
};

/// The file, or all files `NAME-00001-of-00003.gguf`, ... of a split model, in order, if it is one
/// of them. Throws the Errors of GgufFile::open, and an Error if a file is missing or of another
/// model.
std::vector<GgufFile> open_gguf(const std::filesystem::path& path);

/// One tensor to write: `values` is called once, when the tensor is written, and returns all
/// values.
struct GgufEntry {
  std::string name;
  Dims dims;  // outermost first
  GgmlType type = GgmlType::F32;
  std::function<std::vector<float>()> values;
};

/// The types that can be written: F32, F16, BF16 and, for rows of multiples of 32 values, Q8_0.
bool gguf_can_write(GgmlType type, const Dims& dims);

/// Writes a file of version 3 to a temporary name, then fsyncs and renames it. Throws an Error if a
/// name is used twice, a type cannot be written, or the disk is full.
void write_gguf(const std::filesystem::path& path, std::span<const GgufEntry> entries,
                const std::map<std::string, std::string>& texts);

}  // namespace kinema::io
