// Objects of a store by parts, and whole objects from parts.
#include <arrow/io/interfaces.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <system_error>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/remote/partial_file.h"
#include "kinema/remote/store.h"
#include "kinema/remote/store_cache.h"
#include "kinema/remote/store_connection.h"

namespace kinema::remote {

namespace fs = std::filesystem;

namespace {

using arrow::Status;

constexpr int64_t kChunk = int64_t{16} << 20;

/// Base64 of four big-endian bytes.
std::optional<uint32_t> read_crc(const std::string& text) {
  unsigned char bytes[6] = {};
  if (text.size() != 8 ||
      EVP_DecodeBlock(bytes, reinterpret_cast<const unsigned char*>(text.data()), 8) < 4) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 |
         static_cast<uint32_t>(bytes[2]) << 8 | static_cast<uint32_t>(bytes[3]);
}

/// The store's time of a file; clocks of the standard library have different epochs.
fs::file_time_type file_time(int64_t modified_ns) {
  const std::chrono::sys_time<std::chrono::nanoseconds> time{std::chrono::nanoseconds(modified_ns)};
  return std::chrono::time_point_cast<fs::file_time_type::duration>(
      std::chrono::file_clock::from_sys(time));
}

/// The partial files of `to`, for any version: `.NAME.VERSION.part` next to it.
std::vector<fs::path> parts_of(const fs::path& to) {
  std::error_code ignored;
  std::vector<fs::path> out;
  const std::string begin = "." + to.filename().string() + ".";
  for (const auto& entry : fs::directory_iterator(to.parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begin) && name.ends_with(".part")) {
      out.push_back(entry.path());
    }
  }
  return out;
}

}  // namespace

struct StoredObject::Handle {
  std::shared_ptr<const Store::Connection> connection;
  StorePath path;
  std::shared_ptr<arrow::io::RandomAccessFile> file;
};

StoredObject::StoredObject(std::shared_ptr<const Store::Connection> connection,
                           const StorePath& path)
    : path_(path.text()) {
  Handle handle{std::move(connection), path, nullptr};
  std::shared_ptr<const arrow::KeyValueMetadata> about;
  handle.connection->attempt(path, "read", [&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(handle.file,
                          handle.connection->files->OpenInputFile(handle.connection->key(path)));
    ARROW_ASSIGN_OR_RAISE(size_, handle.file->GetSize());
    return handle.file->ReadMetadata().Value(&about);
  });
  const auto known = [&](const char* name) {
    const auto value = about ? about->Get(name) : arrow::Result<std::string>("");
    return value.ok() ? *value : "";
  };
  version_ = path.scheme == "gs" ? known("generation") : known("ETag");
  std::erase_if(version_, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-'; });
  version_.resize(std::min<size_t>(version_.size(), 64));
  crc32c_ = read_crc(known("crc32c"));
  handle_ = std::make_shared<const Handle>(std::move(handle));
}

void StoredObject::read(int64_t begin, std::span<std::byte> to) const {
  const auto size = static_cast<int64_t>(to.size());
  check(begin >= 0 && size <= size_ - begin, "[remote] {} has {} bytes, {} from {} were requested",
        path_, size_, size, begin);
  handle_->connection->attempt(handle_->path, "read", [&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(const int64_t got, handle_->file->ReadAt(begin, size, to.data()));
    return got == size ? Status::OK()
                       : Status::IOError(fmt::format("received {} bytes instead of {}", got, size));
  });
}

int64_t partial_bytes(const fs::path& to) {
  int64_t out = 0;
  for (const fs::path& part : parts_of(to)) {
    std::error_code error;
    const auto size = fs::file_size(part, error);
    out += error ? 0 : static_cast<int64_t>(size);
  }
  return out;
}

bool is_copy(const fs::path& local, const StoredFile& file) {
  std::error_code error;
  const auto size = fs::file_size(local, error);
  if (error || static_cast<int64_t>(size) != file.size) {
    return false;
  }
  const fs::file_time_type time = fs::last_write_time(local, error);
  // File systems round times.
  const auto difference = time > file_time(file.modified_ns) ? time - file_time(file.modified_ns)
                                                             : file_time(file.modified_ns) - time;
  return !error && difference < std::chrono::microseconds(10);
}

void Store::download(const StoredFile& file, const fs::path& to, const std::string& folder,
                     const std::function<void(int64_t)>& on_bytes) const {
  const StorePath path = path_.below(folder).below(file.name);
  const StoredObject object(connection_, path);
  const auto check_unchanged = [&](const StoredObject& now) {
    check(now.size() == file.size && now.version() == object.version(),
          "[remote] {} changed while it was read: it had {} bytes, now {}\n  run again to read the "
          "new version",
          path.text(), file.size, now.size());
  };
  check_unchanged(object);
  const fs::path part = to.parent_path() / fmt::format(".{}.{}-{}.part", to.filename().string(),
                                                       object.version(), file.size);
  std::error_code ignored;
  for (const fs::path& other : parts_of(to)) {
    if (other != part) {
      fs::remove(other, ignored);
    }
  }
  PartialFile partial(part, {.what = path.text(), .size = file.size, .crc32c = object.crc32c()});
  if (is_copy(to, file)) {  // another process has downloaded it meanwhile
    partial.remove();
    return;
  }
  std::vector<std::byte> bytes;
  while (!partial.is_complete()) {
    bytes.resize(static_cast<size_t>(std::min(kChunk, file.size - partial.size())));
    object.read(partial.size(), bytes);
    partial.append(bytes);
    if (on_bytes) {
      on_bytes(partial.size());
    }
  }
  if (path.scheme == "s3" &&
      file.size > kChunk) {  // each range is of the object's version at that time
    try {
      check_unchanged(StoredObject(connection_, path));
    } catch (...) {
      partial.remove();
      throw;
    }
  }
  partial.verify();
  fs::last_write_time(part, file_time(file.modified_ns),
                      ignored);  // without it, it is downloaded again
  partial.publish(to);
}

}  // namespace kinema::remote
