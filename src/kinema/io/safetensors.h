#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/core/shape.h"
#include "kinema/io/tensor_file.h"

namespace kinema::io {

/// A safetensors file, validated completely when opened: header, shapes against offsets, and every
/// byte of the data belongs to exactly one tensor.
class SafetensorsFile : public TensorFile {
 public:
  /// Throws an Error with the file and the problem.
  static SafetensorsFile open(const std::filesystem::path& path);
  /// The same checks over bytes in memory, which must outlive the result.
  static SafetensorsFile parse(std::span<const std::byte> bytes, const std::string& source);
};

using ByteSink = std::function<void(std::span<const std::byte>)>;

/// One tensor to write. `write` is called once, when the tensor is written, and passes its bytes to
/// the sink in any pieces, so that only one tensor needs to be in memory at a time.
struct TensorEntry {
  std::string name;
  Shape shape;
  std::function<void(const ByteSink&)> write;

  /// From an array that outlives the writing.
  static TensorEntry of(std::string name, const HostArray& array);
  static TensorEntry of(std::string name, HostArray&& temporary) = delete;
  /// From a view of a mapped file, both of which outlive the writing.
  static TensorEntry of(std::string name, const TensorView& view);
  /// From an array that is created when it is needed and freed afterwards.
  static TensorEntry lazy(std::string name, Shape shape, std::function<HostArray()> make);
};

/// Writes the tensors in the given order to a temporary name, then fsyncs and renames. Data has no
/// gaps, as other readers require, and starts at a multiple of 8. Returns the file's size.
///
/// Throws an Error if a name is used twice, an entry has too few or too many bytes, or the disk is
/// full; `path` is unchanged then.
uint64_t write_safetensors(const std::filesystem::path& path, std::span<const TensorEntry> entries,
                           const std::map<std::string, std::string>& metadata = {});

}  // namespace kinema::io
