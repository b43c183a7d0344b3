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

/// Row groups of Parquet and Arrow files, through libarrow: for the sources of this room that read
/// tables.
namespace kinema::data {

/// Throws an Error of one line that begins with `where` when the status is none of success.
void check_arrow(const arrow::Status& status, const std::string& where);

/// The value, or an Error as of check_arrow.
template <typename T>
T value_of(arrow::Result<T> result, const std::string& where) {
  check_arrow(result.status(), where);
  return std::move(result).ValueUnsafe();
}

/// Row groups of one file.
class RowGroups {
 public:
  virtual ~RowGroups() = default;
  virtual std::vector<int64_t> rows() const = 0;  // of each group, as the file says
  virtual std::vector<std::string> columns() const = 0;
  /// A column of a group, as the file has it: not validated. Safe to call from many threads.
  virtual std::shared_ptr<arrow::RecordBatch> read(size_t group,
                                                   const std::string& column) const = 0;
};

/// Reads what a file says of itself. `small` is a column that may be decoded to learn how many rows
/// an Arrow batch has. What is read is held in memory of `pool` or is part of `bytes`; both must
/// outlive it. Throws an Error that begins with `where` for a file that is none of these or
/// damaged.
std::unique_ptr<RowGroups> open_row_groups(std::span<const std::byte> bytes,
                                           const std::string& where, const std::string& small,
                                           arrow::MemoryPool* pool);

}  // namespace kinema::data
