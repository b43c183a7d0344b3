#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace kinema::data {

/// What a cell of a Hugging Face data set's column of media holds: bytes, or the path of a file. It
/// may not outlive its table.
struct MediaCell {
  std::shared_ptr<const void> owner;  // of the bytes
  std::span<const std::byte> bytes;
  std::string path;
};

/// Rows of a Parquet file or an Arrow file (IPC file or stream), read when they are asked for; a
/// few row groups stay in memory. Safe to use from many threads.
class HfTable {
 public:
  /// Room for columns that are compressed, beside what the file's bytes allow.
  static constexpr int64_t kSpareBytes = int64_t{512} << 20;

  /// Reads what the file says of itself. Throws an Error with the path for a file that is none of
  /// these, is damaged, or has no such column. Values never take more memory than BoundedPool
  /// gives: what would is an Error of whoever reads it.
  HfTable(const std::filesystem::path& path, const std::string& media_column,
          const std::string& caption_column, int64_t spare_bytes = kSpareBytes);
  HfTable(HfTable&&) noexcept;
  ~HfTable();

  int64_t rows() const;
  const std::filesystem::path& path() const;
  /// Of a row: text, or the first of a list of texts. Throws an Error that names the row.
  std::string caption(int64_t row) const;
  /// Of a row: binary, text (a path), or a struct of `bytes` and `path`. Throws an Error that names
  /// the row.
  MediaCell media(int64_t row) const;
  /// `train-00000.parquet row 7`.
  std::string where(int64_t row) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinema::data
