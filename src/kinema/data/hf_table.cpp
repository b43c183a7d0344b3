#include "kinema/data/hf_table.h"

#include <arrow/api.h>
#include <arrow/util/byte_size.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/data/bounded_pool.h"
#include "kinema/data/metadata.h"
#include "kinema/data/row_groups.h"
#include "kinema/io/mapped_file.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;

/// Row groups stay in memory up to this total size, and at least one.
constexpr int64_t kKeptBytes = int64_t{256} << 20;

std::string text_of(const arrow::Scalar& scalar) {
  const auto& buffer = static_cast<const arrow::BaseBinaryScalar&>(scalar).value;
  return {reinterpret_cast<const char*>(buffer->data()), static_cast<size_t>(buffer->size())};
}

bool is_text(const arrow::DataType& type) {
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING;
}

bool is_bytes(const arrow::DataType& type) {
  return type.id() == arrow::Type::BINARY || type.id() == arrow::Type::LARGE_BINARY;
}

/// The first of the names that exists; if none does, the first.
std::string first_of(const std::vector<std::string>& names, const std::vector<std::string>& there) {
  const auto found = std::ranges::find_if(
      names, [&](const std::string& name) { return std::ranges::count(there, name) > 0; });
  return found == names.end() ? names.front() : *found;
}

bool is_list(const arrow::DataType& type) {
  return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST;
}

}  // namespace

struct HfTable::State {
  struct Kept {
    size_t group = 0;
    bool media = false;
    std::shared_ptr<arrow::Array> column;
    int64_t bytes = 0;
  };

  State(const fs::path& at, int64_t spare_bytes)
      : path(at),
        file(io::MappedFile::open(path)),
        pool(static_cast<int64_t>(file.bytes().size()), spare_bytes) {}

  fs::path path;
  io::MappedFile file;
  BoundedPool pool;
  std::unique_ptr<RowGroups> groups;
  std::vector<int64_t> ends;  // rows up to the end of each group
  std::string media_column;
  std::string caption_column;
  std::mutex mutex;
  std::deque<Kept> kept;  // the newest first
  int64_t kept_bytes = 0;

  std::string where(int64_t row) const {
    return fmt::format("{} row {}", path.filename().string(), row);
  }

  /// A column of a row group, validated completely.
  std::shared_ptr<arrow::Array> column(size_t group, bool media) {
    const std::lock_guard lock(mutex);
    const auto found = std::ranges::find_if(
        kept, [&](const Kept& each) { return each.group == group && each.media == media; });
    if (found != kept.end()) {
      return found->column;
    }
    const std::string place = fmt::format("{} row group {}", path.string(), group);
    const auto batch = groups->read(group, media ? media_column : caption_column);
    check(batch->num_columns() == 1, "[hf] {}: {} columns instead of one", place,
          batch->num_columns());
    Kept made{group, media, batch->column(0), 0};
    check_arrow(made.column->ValidateFull(), place);
    const int64_t rows = ends[group] - (group == 0 ? 0 : ends[group - 1]);
    check(made.column->length() == rows, "[hf] {} has {} rows, not {}", place,
          made.column->length(), rows);
    made.bytes = arrow::util::TotalBufferSize(*made.column);
    kept_bytes += made.bytes;
    kept.push_front(made);
    while (kept.size() > 1 && kept_bytes > kKeptBytes) {
      kept_bytes -= kept.back().bytes;
      kept.pop_back();
    }
    return made.column;
  }

  std::shared_ptr<arrow::Scalar> cell(int64_t row, bool media) {
    const auto end = std::ranges::upper_bound(ends, row);
    check(row >= 0 && end != ends.end(), "[hf] {} has no row {}", path.string(), row);
    const auto group = static_cast<size_t>(end - ends.begin());
    const int64_t first = group == 0 ? 0 : ends[group - 1];
    return value_of(column(group, media)->GetScalar(row - first), where(row));
  }
};

HfTable::HfTable(const fs::path& path, const std::string& media_column,
                 const std::string& caption_column, int64_t spare_bytes)
    : state_(std::make_unique<State>(path, spare_bytes)) {
  State& s = *state_;
  s.groups = open_row_groups(s.file.bytes(), path.string(), caption_column, &s.pool);
  const std::vector<std::string> columns = s.groups->columns();
  // The default names also match other usual ones.
  s.media_column =
      media_column == "image" ? first_of({"image", "video", "file_name"}, columns) : media_column;
  s.caption_column = first_of(caption_names(caption_column), columns);
  for (const auto& [column, key] :
       {std::pair{s.media_column, "image_column"}, std::pair{s.caption_column, "caption_column"}}) {
    check(std::ranges::count(columns, column) == 1,
          "[hf] {} has no column `{}` ({}): it has {}\n  image_column and caption_column name them",
          path.string(), column, key, fmt::join(columns, ", "));
  }
  int64_t sum = 0;
  for (const int64_t rows : s.groups->rows()) {
    check(rows >= 0 && !__builtin_add_overflow(sum, rows, &sum) &&
              sum <= static_cast<int64_t>(s.file.bytes().size()),
          "[hf] {}: a group of {} rows, in a file of {} bytes", path.string(), rows,
          s.file.bytes().size());
    s.ends.push_back(sum);
  }
}

std::vector<std::string> HfTable::columns_of(const fs::path& path) {
  const io::MappedFile file = io::MappedFile::open(path);
  BoundedPool pool(static_cast<int64_t>(file.bytes().size()), kSpareBytes);
  return open_row_groups(file.bytes(), path.string(), "", &pool)->columns();
}

HfTable::HfTable(HfTable&&) noexcept = default;
HfTable::~HfTable() = default;

int64_t HfTable::rows() const { return state_->ends.empty() ? 0 : state_->ends.back(); }
const fs::path& HfTable::path() const { return state_->path; }
std::string HfTable::where(int64_t row) const { return state_->where(row); }

std::string HfTable::caption(int64_t row) const {
  std::shared_ptr<arrow::Scalar> scalar = state_->cell(row, /*media=*/false);
  if (is_list(*scalar->type) && scalar->is_valid) {
    const auto& items = static_cast<const arrow::BaseListScalar&>(*scalar).value;
    check(items->length() > 0, "[hf] {} has no caption", where(row));
    scalar = value_of(items->GetScalar(0), where(row));
  }
  check(scalar->is_valid, "[hf] {} has no caption", where(row));
  check(is_text(*scalar->type), "[hf] {}: `{}` is {}, text was expected", where(row),
        state_->caption_column, scalar->type->ToString().substr(0, 100));
  return text_of(*scalar);
}

MediaCell HfTable::media(int64_t row) const {
  const std::shared_ptr<arrow::Scalar> whole = state_->cell(row, /*media=*/true);
  check(whole->is_valid, "[hf] {} has no `{}`", where(row), state_->media_column);
  std::shared_ptr<arrow::Scalar> bytes;
  MediaCell out;
  if (whole->type->id() == arrow::Type::STRUCT) {
    const auto& parts = static_cast<const arrow::StructScalar&>(*whole);
    for (const char* name : {"bytes", "path"}) {
      const auto part = parts.field(arrow::FieldRef(name));
      if (!part.ok() || !(*part)->is_valid) {
        continue;
      }
      if (is_bytes(*(*part)->type)) {
        bytes = *part;
      } else if (is_text(*(*part)->type)) {
        out.path = text_of(**part);
      }
    }
  } else if (is_bytes(*whole->type)) {
    bytes = whole;
  } else if (is_text(*whole->type)) {
    out.path = text_of(*whole);
  } else {
    fail("[hf] {}: `{}` is {}; binary, a path, or a struct of bytes and path was expected",
         where(row), state_->media_column, whole->type->ToString().substr(0, 100));
  }
  if (bytes) {
    const auto& buffer = static_cast<const arrow::BaseBinaryScalar&>(*bytes).value;
    out.bytes = std::as_bytes(std::span(buffer->data(), static_cast<size_t>(buffer->size())));
    out.owner = buffer;
  }
  check(!out.bytes.empty() || !out.path.empty(), "[hf] {}: `{}` has neither bytes nor a path",
        where(row), state_->media_column);
  return out;
}

}  // namespace kinema::data
