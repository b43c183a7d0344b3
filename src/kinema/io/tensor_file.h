#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/core/shape.h"
#include "kinema/io/mapped_file.h"

namespace kinema::io {

/// A tensor inside a mapped file; valid as long as the file object exists.
struct TensorView {
  std::string name;
  Shape shape;
  std::span<const std::byte> bytes;
  /// If set, the bytes are codes, and this writes their F32 values.
  std::function<void(std::span<float> values)> decode = {};

  /// A copy in host memory; throws an Error if the file was truncated meanwhile.
  HostArray copy() const;
};

/// The named tensors of a file and the texts beside them: SafetensorsFile or PickleFile.
class TensorFile {
 public:
  TensorFile() = default;
  /// Opens a pickle if the name ends like one (is_pickle_name), else a safetensors file. Throws the
  /// Errors of PickleFile::open and SafetensorsFile::open.
  static TensorFile open(const std::filesystem::path& path);

  /// In the order of the file: by their bytes, or in a pickle by its entries.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  /// The tensor, or null.
  const TensorView* find(std::string_view name) const;
  /// The tensor; throws an Error with the file and the missing name.
  const TensorView& at(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }
  /// Throws an Error if the file was truncated since it was opened; call it after reading.
  void check_intact() const { file_.check_intact(); }

 protected:
  std::string path_;
  MappedFile file_;
  std::vector<TensorView> tensors_;
  std::map<std::string, size_t, std::less<>> index_;  // of tensors_
  std::map<std::string, std::string> metadata_;
  std::deque<std::vector<std::byte>> copies_;  // bytes of tensors that are not in order in the file
};

/// True for a name that ends with .pth, .pt, .ckpt, .bin or .pkl.
bool is_pickle_name(const std::filesystem::path& path);

}  // namespace kinema::io
