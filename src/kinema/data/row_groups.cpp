#include "kinema/data/row_groups.h"

#include <arrow/io/memory.h>
#include <arrow/ipc/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <algorithm>
#include <exception>
#include <string_view>

#include "kinema/io/file_format.h"

namespace kinema::data {
namespace {

using Columns = std::shared_ptr<arrow::RecordBatch>;

/// Calls a function of libparquet, and converts its exceptions.
template <typename Call>
auto guarded(const std::string& where, const Call& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // libparquet's, and those of containers with wrong sizes
    check_arrow(arrow::Status::Invalid(error.what()), where);
    throw;
  }
}

class ParquetGroups : public RowGroups {
 public:
  ParquetGroups(std::shared_ptr<arrow::Buffer> buffer, std::string where, arrow::MemoryPool* pool)
      : buffer_(std::move(buffer)), where_(std::move(where)), pool_(pool) {
    guarded(where_, [&] { metadata_ = open()->metadata(); });
  }

  std::vector<int64_t> rows() const override {
    return guarded(where_, [&] {
      std::vector<int64_t> out;
      for (int i = 0; i < metadata_->num_row_groups(); ++i) {
        out.push_back(metadata_->RowGroup(i)->num_rows());
      }
      return out;
    });
  }

  std::vector<std::string> columns() const override {
    const auto* root = metadata_->schema()->group_node();
    std::vector<std::string> out;
    for (int i = 0; i < root->field_count(); ++i) {
      out.push_back(root->field(i)->name());
    }
    return out;
  }

  // A separate reader for each group, because readers are not thread-safe.
  Columns read(size_t group, const std::string& column) const override {
    return guarded(where_, [&]() -> Columns {
      std::vector<int> leaves;
      const parquet::SchemaDescriptor* schema = metadata_->schema();
      for (int i = 0; i < schema->num_columns(); ++i) {
        if (schema->Column(i)->path()->ToDotVector().front() == column) {
          leaves.push_back(i);
        }
      }
      parquet::ArrowReaderProperties properties(/*use_threads=*/false);
      properties.set_pre_buffer(false);  // the file is mapped
      auto reader =
          value_of(parquet::arrow::FileReader::Make(pool_, open(metadata_), properties), where_);
      auto table = value_of(reader->ReadRowGroup(static_cast<int>(group), leaves), where_);
      return value_of(table->CombineChunksToBatch(pool_), where_);
    });
  }

 private:
  std::unique_ptr<parquet::ParquetFileReader> open(
      std::shared_ptr<parquet::FileMetaData> metadata = nullptr) const {
    parquet::ReaderProperties properties(pool_);
    // Memory for a list's entries, up to 200 bytes each, is allocated before they are read, outside
    // of the pool. The smallest entry, a column of the schema, takes more than eight bytes of the
    // file.
    constexpr int64_t kEntryBytes = 8;
    properties.set_thrift_container_size_limit(static_cast<int32_t>(std::min<int64_t>(
        buffer_->size() / kEntryBytes, properties.thrift_container_size_limit())));
    properties.set_thrift_string_size_limit(static_cast<int32_t>(
        std::min<int64_t>(buffer_->size(), properties.thrift_string_size_limit())));
    return parquet::ParquetFileReader::Open(std::make_shared<arrow::io::BufferReader>(buffer_),
                                            properties, std::move(metadata));
  }

  std::shared_ptr<arrow::Buffer> buffer_;
  std::string where_;
  arrow::MemoryPool* pool_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
};

/// Record batches of an Arrow file or stream. Their offsets are found once; their buffers are parts
/// of the mapping unless they are compressed.
class ArrowGroups : public RowGroups {
 public:
  ArrowGroups(std::shared_ptr<arrow::Buffer> buffer, std::string where, const std::string& small,
              arrow::MemoryPool* pool)
      : buffer_(std::move(buffer)), where_(std::move(where)), pool_(pool) {
    // A file is a stream after eight bytes, with an index at the end; reading it as a stream avoids
    // trusting the index.
    constexpr std::string_view kMagic = "ARROW1";
    const bool is_file =
        buffer_->size() > 8 &&
        std::string_view(reinterpret_cast<const char*>(buffer_->data()), kMagic.size()) == kMagic;
    auto stream = std::make_shared<arrow::io::BufferReader>(buffer_);
    check_arrow(stream->Seek(is_file ? 8 : 0), where_);
    auto first = value_of(arrow::ipc::ReadMessage(stream.get(), pool_), where_);
    check(first != nullptr && first->type() == arrow::ipc::MessageType::SCHEMA,
          "[hf] {} is neither a Parquet nor an Arrow file", where_);
    schema_ = value_of(arrow::ipc::ReadSchema(*first, &memo_), where_);
    const int small_field = std::max(schema_->GetFieldIndex(small), 0);
    check(schema_->num_fields() > 0, "[hf] {} has no columns", where_);
    for (;;) {
      const int64_t at = value_of(stream->Tell(), where_);
      auto message = value_of(arrow::ipc::ReadMessage(stream.get(), pool_), where_);
      if (message == nullptr) {
        break;  // the end marker of the stream
      }
      check(
          message->type() == arrow::ipc::MessageType::RECORD_BATCH,
          "[hf] {}: a message at byte {} is not a record batch; dictionary-encoded columns are not "
          "supported",
          where_, at);
      offsets_.push_back(at);
      rows_.push_back(decode(*message, small_field)->num_rows());
    }
  }

  std::vector<int64_t> rows() const override { return rows_; }
  std::vector<std::string> columns() const override { return schema_->field_names(); }

  Columns read(size_t group, const std::string& column) const override {
    arrow::io::BufferReader stream(buffer_);
    check_arrow(stream.Seek(offsets_.at(group)), where_);
    const auto message = value_of(arrow::ipc::ReadMessage(&stream, pool_), where_);
    check(message != nullptr, "[hf] {} became shorter", where_);
    return decode(*message, schema_->GetFieldIndex(column));
  }

 private:
  Columns decode(const arrow::ipc::Message& message, int field) const {
    arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
    options.memory_pool = pool_;
    options.use_threads = false;
    options.included_fields = {field};
    return value_of(arrow::ipc::ReadRecordBatch(message, schema_, &memo_, options), where_);
  }

  std::shared_ptr<arrow::Buffer> buffer_;
  std::string where_;
  arrow::MemoryPool* pool_;
  std::shared_ptr<arrow::Schema> schema_;
  mutable arrow::ipc::DictionaryMemo memo_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> rows_;
};

}  // namespace

void check_arrow(const arrow::Status& status, const std::string& where) {
  check(!status.IsOutOfMemory(),
        "[hf] {}: reading it takes far more memory than the file has bytes: it is corrupt, or "
        "should have smaller row groups",
        where);
  check(status.ok(), "[hf] {}: {}", where,
        status.message().substr(0, std::min<size_t>(status.message().find('\n'), 300)));
}

std::unique_ptr<RowGroups> open_row_groups(std::span<const std::byte> bytes,
                                           const std::string& where, const std::string& small,
                                           arrow::MemoryPool* pool) {
  auto buffer = std::make_shared<arrow::Buffer>(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int64_t>(bytes.size()));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const io::FileFormat format = io::file_format(bytes);
  const bool is_parquet = text.starts_with("PAR1");
  check(is_parquet || text.starts_with("ARROW1") || !format, "[hf] {}",
        io::wrong_format_text(where, format, "Parquet or Arrow"));
  if (is_parquet) {
    return std::make_unique<ParquetGroups>(std::move(buffer), where, pool);
  }
  return std::make_unique<ArrowGroups>(std::move(buffer), where, small, pool);
}

}  // namespace kinema::data
