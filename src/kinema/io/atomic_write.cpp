#include "kinema/io/atomic_write.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"

namespace kinema::io {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

std::string reason(int error) {
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return errno_text(error) + (is_full ? "; nothing was replaced" : "");
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

void check_file_place(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  check(!std::filesystem::is_directory(status), "[io] cannot write {}: it is a folder",
        path.string());
  check(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
        "[io] cannot write {}: it is a device, pipe or socket, expected a file or a new name",
        path.string());
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  check_file_place(path_);
  // Not mkstemp, whose files are private regardless of the umask.
  static std::atomic<uint64_t> counter = 0;
  do {
    temporary_ = (folder_of(path_) /
                  fmt::format(".{}.{}-{}.tmp", path_.filename().string(), ::getpid(), counter++))
                     .string();
    file_ = Descriptor::open(temporary_, O_WRONLY | O_CREAT | O_EXCL, 0666);
  } while (!file_ && errno == EEXIST);  // left by a killed process with the same number
  check(static_cast<bool>(file_), "[io] cannot create {}: {}", path_.string(), reason(errno));
}

AtomicFile::~AtomicFile() {
  if (file_) {
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  check(static_cast<bool>(file_), "[io] {} is already complete", path_.string());
  written_ += bytes.size();
  const auto* data = reinterpret_cast<const char*>(bytes.data());
  if (buffer_.size() + bytes.size() < kBufferBytes) {
    buffer_.append(data, bytes.size());
    return;
  }
  flush();
  put(bytes);
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::put(std::span<const std::byte> bytes) {
  const int error = write_all(file_, bytes);
  check(error == 0, "[io] cannot write {}: {}", path_.string(), reason(error));
}

void AtomicFile::flush() {
  put(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

void AtomicFile::commit() {
  check(static_cast<bool>(file_), "[io] {} is already complete", path_.string());
  flush();
  check(::fsync(file_.get()) == 0, "[io] cannot write {}: {}", path_.string(), reason(errno));
  check(::rename(temporary_.c_str(), path_.c_str()) == 0, "[io] cannot write {}: {}",
        path_.string(), reason(errno));
  file_.close();
  sync_folder(folder_of(path_));
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

bool create_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  check(fd >= 0 || errno == EEXIST, "[io] cannot create {}: {}", path.string(), reason(errno));
  if (fd >= 0) {
    ::close(fd);
  }
  return fd >= 0;
}

bool exchange(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) {
    return true;
  }
  const int error = errno;
  // Some containers return EPERM for unknown calls.
  const bool unknown = error == ENOSYS || error == EINVAL || error == EOPNOTSUPP || error == EPERM;
  check(unknown, "[io] cannot exchange {} and {}: {}", a.string(), b.string(), reason(error));
  return false;
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor opened = Descriptor::open(folder, O_RDONLY | O_DIRECTORY);
  check(static_cast<bool>(opened), "[io] cannot open folder {}: {}", folder.string(),
        errno_text(errno));
  const int result = ::fsync(opened.get());
  const int error = errno;
  // Some network file systems have no fsync of folders and return EINVAL; they order renames
  // themselves.
  check(result == 0 || error == EINVAL, "[io] cannot sync folder {}: {}", folder.string(),
        errno_text(error));
}

}  // namespace kinema::io
