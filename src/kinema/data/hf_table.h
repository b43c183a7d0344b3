#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kinema::data {

/// A media cell of a Hugging Face data set: bytes, or the path of a file. Must not outlive its
/// table.
struct MediaCell {
  std::shared_ptr<const void> owner;  // keeps the bytes alive
  std::span<const std::byte> bytes;
  std::string path;
};

/// Rows of a Parquet file or an Arrow file (IPC file or stream), read on demand; a few row groups
/// stay in memory. Thread-safe.
class HfTable {
 public:
  /// Memory for compressed columns, in addition to that for the file's bytes.
  static constexpr int64_t kSpareBytes = int64_t{512} << 20;

  /// Reads the file's metadata. Throws an Error with the path if the file has another format, is
  /// corrupt, or lacks a column. Values never need more memory than BoundedPool allows; reading
  /// larger ones throws an Error.
  HfTable(const std::filesystem::path& path, const std::string& media_column,
          const std::string& caption_column, int64_t spare_bytes = kSpareBytes);
  HfTable(HfTable&&) noexcept;
  ~HfTable();

  /// The names of a file's columns. Throws the Errors of the constructor.
  static std::vector<std::string> columns_of(const std::filesystem::path& path);

  int64_t rows() const;
  const std::filesystem::path& path() const;
  /// Of a row: text, or the first text of a list. Throws an Error with the row.
  std::string caption(int64_t row) const;
  /// Of a row: binary, text (a path), or a struct of `bytes` and `path`. Throws an Error with the
  /// row.
  MediaCell media(int64_t row) const;
  /// `train-00000.parquet row 7`.
  std::string where(int64_t row) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinema::data
