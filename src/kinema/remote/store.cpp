#include "kinema/remote/store.h"

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"
#include "kinema/remote/repo_cache.h"
#include "kinema/remote/store_connection.h"

namespace kinema::remote {
namespace {

using arrow::Status;
using arrow::fs::FileInfo;
using arrow::fs::FileType;

constexpr int64_t kChunk = int64_t{8} << 20;
// The libraries retry single requests `timeouts.retries` times; whole calls are retried half as
// often. Calls that start from the beginning are not retried after this time.
constexpr std::chrono::minutes kLongest{5};

int64_t nanoseconds(const FileInfo& info) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(info.mtime().time_since_epoch())
      .count();
}

}  // namespace

std::string Store::Connection::key(const StorePath& path) {
  return path.bucket + (path.name.empty() ? "" : "/" + path.name);
}

void Store::Connection::attempt(const StorePath& path, const char* verb,
                                const std::function<Status()>& work) const {
  const auto start = std::chrono::steady_clock::now();
  for (int attempt = 1;; ++attempt) {
    Status status;
    try {
      status = work();
    } catch (const Error&) {
      throw;  // a local error, such as a full disk
    } catch (const std::exception& error) {
      status = Status::IOError(error.what());
    }
    if (status.ok()) {
      return;
    }
    const StoreFailure failure = failure_of(status, path);
    if (failure.kind != StoreFailure::Kind::UNREACHABLE || attempt > timeouts.retries / 2 ||
        std::chrono::steady_clock::now() - start > kLongest) {
      fail("[remote] {} could not be {}: {}{}{}", path.text(), verb, failure.reason,
           failure.remedy.empty() ? "" : "\n  ", failure.remedy);
    }
    back_off(timeouts, attempt);
  }
}

Store::Store(StorePath path, const Timeouts& timeouts)
    : path_(std::move(path)),
      connection_(std::make_shared<Connection>(Connection{connect(path_, timeouts), timeouts})) {}

std::vector<StoredFile> Store::list(const std::string& folder) const {
  const StorePath path = path_.below(folder);
  arrow::fs::FileSelector selector;
  selector.base_dir = connection_->key(path);
  selector.recursive = true;
  selector.allow_not_found = true;
  std::vector<FileInfo> found;
  connection_->attempt(path, "listed",
                       [&] { return connection_->files->GetFileInfo(selector).Value(&found); });
  std::vector<StoredFile> out;
  const std::string prefix = selector.base_dir + "/";
  for (const FileInfo& each : found) {
    if (!each.IsFile() || !each.path().starts_with(prefix)) {
      continue;
    }
    std::string name = each.path().substr(prefix.size());
    if (is_plain_path(name)) {  // other names cannot be stored in a folder
      out.push_back({std::move(name), each.size(), nanoseconds(each)});
    }
  }
  if (out.empty() && !path.name.empty()) {
    if (std::optional<StoredFile> self = find(folder)) {
      self->name.clear();
      out.push_back(*std::move(self));
    }
  }
  std::ranges::sort(out, {}, &StoredFile::name);
  return out;
}

std::optional<StoredFile> Store::find(const std::string& name) const {
  const StorePath path = path_.below(name);
  FileInfo info;
  connection_->attempt(path, "found", [&] {
    return connection_->files->GetFileInfo(connection_->key(path)).Value(&info);
  });
  return info.IsFile() ? std::optional(StoredFile{name, info.size(), nanoseconds(info)})
                       : std::nullopt;
}

std::string Store::read(const std::string& name, int64_t most) const {
  const StorePath path = path_.below(name);
  std::string out;
  connection_->attempt(path, "read", [&]() -> Status {
    out.clear();
    ARROW_ASSIGN_OR_RAISE(const auto stream,
                          connection_->files->OpenInputStream(connection_->key(path)));
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const auto piece, stream->Read(kChunk));
      if (piece->size() == 0) {
        return stream->Close();
      }
      check(static_cast<int64_t>(out.size()) + piece->size() <= most,
            "[remote] {} has more than {} bytes", path.text(), most);
      out.append(reinterpret_cast<const char*>(piece->data()), static_cast<size_t>(piece->size()));
    }
  });
  return out;
}

StoredObject Store::open(const std::string& name) const {
  return StoredObject(connection_, path_.below(name));
}

namespace {

/// Writes `bytes` to a stream that publishes the object at its end.
Status send_all(arrow::io::OutputStream& stream, std::span<const std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kChunk) {
    const size_t size = std::min(bytes.size() - at, static_cast<size_t>(kChunk));
    ARROW_RETURN_NOT_OK(stream.Write(bytes.data() + at, static_cast<int64_t>(size)));
  }
  return stream.Close();
}

}  // namespace

/// All bytes must be in memory: a stream that is closed early may publish a part.
void Store::put(const std::string& name, std::span<const std::byte> bytes) const {
  const StorePath path = path_.below(name);
  connection_->attempt(path, "written", [&]() -> Status {
    ARROW_ASSIGN_OR_RAISE(const auto stream,
                          connection_->files->OpenOutputStream(connection_->key(path), nullptr));
    if (Status sent = send_all(*stream, bytes); !sent.ok()) {
      (void)stream->Abort();
      // If only the last response was lost, the upload no longer exists.
      const bool lost = failure_of(sent, path).kind == StoreFailure::Kind::MISSING;
      return lost ? Status::IOError("the upload broke off") : sent;
    }
    ARROW_ASSIGN_OR_RAISE(const FileInfo made,
                          connection_->files->GetFileInfo(connection_->key(path)));
    const auto size = static_cast<int64_t>(bytes.size());
    return made.size() == size
               ? Status::OK()
               : Status::IOError(fmt::format("{} of {} bytes arrived", made.size(), size));
  });
}

void Store::upload(const std::filesystem::path& from, const std::string& name) const {
  const io::MappedFile file = io::MappedFile::open(from);
  put(name, file.bytes());
  file.check_intact();
}

void Store::write(const std::string& name, std::string_view text) const {
  put(name, std::as_bytes(std::span(text)));
}

void Store::remove(const std::string& name) const {
  const StorePath path = path_.below(name);
  connection_->attempt(path, "removed", [&] {
    const Status removed = connection_->files->DeleteFile(connection_->key(path));
    const bool gone =
        !removed.ok() && failure_of(removed, path).kind == StoreFailure::Kind::MISSING;
    return gone ? Status::OK() : removed;
  });
}

void Store::remove_folder(const std::string& folder) const {
  for (const StoredFile& file : list(folder)) {
    remove(folder.empty() || file.name.empty() ? folder + file.name : folder + "/" + file.name);
  }
  if (path_.scheme == "s3") {
    // On s3://, removing an object leaves an empty object for its folder.
    const StorePath path = path_.below(folder);
    connection_->attempt(path, "removed", [&] {
      const Status removed = connection_->files->DeleteDir(connection_->key(path));
      const bool gone =
          !removed.ok() && failure_of(removed, path).kind == StoreFailure::Kind::MISSING;
      return gone ? Status::OK() : removed;
    });
  }
}

}  // namespace kinema::remote
