#pragma once

#include <arrow/api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/error.h"

/// Row groups of Parquet and Arrow files, through libarrow, for this module's sources.
namespace kinema::data {

/// Throws an Error of one line that starts with `where` unless the status is OK.
void check_arrow(const arrow::Status& status, const std::string& where);

/// The value, or the Error of check_arrow.
template <typename T>
T value_of(arrow::Result<T> result, const std::string& where) {
  check_arrow(result.status(), where);
  return std::move(result).ValueUnsafe();
}

/// Row groups of one file.
class RowGroups {
 public:
  virtual ~RowGroups() = default;
  virtual std::vector<int64_t> rows() const = 0;  // of each group, from the file's metadata
  virtual std::vector<std::string> columns() const = 0;
  /// A column of a group, not validated. Thread-safe.
  virtual std::shared_ptr<arrow::RecordBatch> read(size_t group,
                                                   const std::string& column) const = 0;
};

/// Reads a file's metadata. `small` is a column that may be decoded to count the rows of Arrow
/// batches. Values are in memory of `pool` or are parts of `bytes`; both must outlive the result.
/// Throws an Error that starts with `where` if the file has another format or is corrupt.
std::unique_ptr<RowGroups> open_row_groups(std::span<const std::byte> bytes,
                                           const std::string& where, const std::string& small,
                                           arrow::MemoryPool* pool);

}  // namespace kinema::data
