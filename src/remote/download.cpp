#include "remote/download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "io/crc32c.h"
#include "remote/digest.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;

/// The file under way: its bytes so far, and their digest.
class Partial {
 public:
  Partial(fs::path path, const RemoteFile& file) : path_(std::move(path)), file_(file) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    check(fd_ >= 0, "[remote] cannot write {}: {}", path_.string(), std::strerror(errno));
    struct stat status {};
    ::fstat(fd_, &status);
    if (file_.size >= 0 && status.st_size > file_.size) {
      restart();
    } else {
      read_back();
    }
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;
  ~Partial() { ::close(fd_); }

  int64_t size() const { return size_; }
  bool is_complete() const { return file_.size >= 0 && size_ == file_.size; }

  void restart() {
    check(::ftruncate(fd_, 0) == 0 && ::lseek(fd_, 0, SEEK_SET) == 0,
          "[remote] cannot write {}: {}", path_.string(), std::strerror(errno));
    size_ = 0;
    begin_digest();
  }

  void append(std::span<const std::byte> bytes) {
    check(file_.size < 0 || size_ + static_cast<int64_t>(bytes.size()) <= file_.size,
          "[remote] {} should have {} bytes but more came", file_.what, file_.size);
    take(bytes);
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      check(written > 0 || errno == EINTR, "[remote] cannot write {}: {}", path_.string(),
            std::strerror(errno));
      if (written > 0) {
        size_ += written;
        bytes = bytes.subspan(static_cast<size_t>(written));
      }
    }
  }

  /// Throws, and removes the file, when the bytes are not those that were promised.
  void verify() {
    if (file_.crc32c && *file_.crc32c != crc_) {
      fs::remove(path_);
      fail(
          "[remote] {} came with CRC-32C {:08x}, expected {:08x}: it was damaged on the way, and "
          "is "
          "removed",
          file_.what, crc_, *file_.crc32c);
    }
    const std::string& expected = file_.sha256.empty() ? file_.git_sha1 : file_.sha256;
    if (!digest_ || expected.empty()) {
      return;
    }
    const std::string actual = digest_->hex();
    if (actual != expected) {
      fs::remove(path_);
      fail("[remote] {} came with {} {}, expected {}: it was damaged on the way, and is removed",
           file_.what, file_.sha256.empty() ? "git id" : "sha256", actual, expected);
    }
  }

  void publish(const fs::path& to) {
    check(::fsync(fd_) == 0, "[remote] cannot write {}: {}", path_.string(), std::strerror(errno));
    fs::rename(path_, to);
  }

 private:
  void take(std::span<const std::byte> bytes) {
    if (digest_) {
      digest_->update(bytes);
    }
    if (file_.crc32c) {
      crc_ = io::crc32c(bytes, crc_);
    }
  }

  void begin_digest() {
    digest_.reset();
    crc_ = 0;
    if (!file_.sha256.empty()) {
      digest_ = std::make_unique<Digest>(Digest::Kind::SHA256);
    } else if (!file_.git_sha1.empty() && file_.size >= 0) {
      digest_ = std::make_unique<Digest>(Digest::Kind::SHA1);
      const std::string head = fmt::format("blob {}", file_.size);
      digest_->update(std::string_view(head.c_str(), head.size() + 1));  // git ends it with a zero
    }
  }

  void read_back() {
    begin_digest();
    std::vector<std::byte> buffer(size_t{1} << 20);
    for (;;) {
      const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
      check(got >= 0, "[remote] cannot read {}: {}", path_.string(), std::strerror(errno));
      if (got == 0) {
        return;
      }
      size_ += got;
      take(std::span(buffer).first(static_cast<size_t>(got)));
    }
  }

  fs::path path_;
  const RemoteFile& file_;
  int fd_ = -1;
  int64_t size_ = 0;
  std::unique_ptr<Digest> digest_;
  uint32_t crc_ = 0;
};

/// One request for what is missing. Returns why it did not end well, or nothing.
std::string fetch_rest(const RemoteFile& file, Partial& partial, const Patience& patience,
                       const std::function<void(int64_t)>& on_bytes,
                       const std::function<void(const Response&)>& refused) {
  Request request{.url = file.url, .headers = file.headers};
  request.headers.emplace_back("Accept-Encoding: identity");
  const int64_t start = partial.size();
  if (start > 0) {
    request.headers.push_back(fmt::format("Range: bytes={}-", start));
  }
  request.on_begin = [&](const Response& response) {
    const std::string range = fmt::format("bytes {}-", start);
    const bool continues =
        response.status == 206 && response.header("content-range").starts_with(range);
    if (start > 0 && !continues && response.status / 100 == 2) {
      partial.restart();  // the server sends all of it
    }
  };
  request.sink = [&](std::span<const std::byte> bytes) {
    partial.append(bytes);
    if (on_bytes) {
      on_bytes(partial.size());
    }
  };
  Patience once = patience;
  once.retries = 0;
  Response response;
  try {
    response = send_following(std::move(request), once);
  } catch (const NetworkError& error) {
    return error.what();
  }
  if (response.status == 416) {
    partial.restart();
    return "[remote] the server would not go on from where the transfer stopped";
  }
  if (is_transient(response.status)) {
    return fmt::format("[remote] {} answers {}", origin_of(file.url), response.status);
  }
  if (response.status != 200 && response.status != 206) {
    refused(response);
    fail("[remote] {}: {} answers {}", file.what, origin_of(file.url), response.status);
  }
  if (file.size >= 0 && partial.size() < file.size) {
    return fmt::format("[remote] {} ended early", origin_of(file.url));
  }
  return "";
}

}  // namespace

FileLock::FileLock(const fs::path& path)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  check(fd_ >= 0, "[remote] cannot write {}: {}", path.string(), std::strerror(errno));
  while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

FileLock::~FileLock() { ::close(fd_); }

void download(const RemoteFile& file, const fs::path& to, const fs::path& lock,
              const Patience& patience, const std::function<void(int64_t)>& on_bytes,
              const std::function<void(const Response&)>& refused) {
  fs::create_directories(to.parent_path());
  fs::create_directories(lock.parent_path());
  const FileLock held(lock);
  if (fs::exists(to)) {
    return;
  }
  const fs::path incomplete = to.string() + ".incomplete";
  Partial partial(incomplete, file);
  std::string problem;
  for (int attempt = 1; !partial.is_complete(); ++attempt) {
    const int64_t before = partial.size();
    problem = fetch_rest(file, partial, patience, on_bytes, refused);
    if (problem.empty()) {
      break;
    }
    constexpr int64_t kProgress = 1 << 20;
    if (partial.size() >= before + kProgress) {
      attempt = 1;  // a long transfer over a poor line gets on
    }
    if (attempt > patience.retries) {
      const bool some = partial.size() > 0;
      if (!some) {
        fs::remove(incomplete);
      }
      const std::string part =
          some ? fmt::format(" after {} of {} bytes", partial.size(),
                             file.size >= 0 ? fmt::format("{}", file.size) : "?")
               : "";
      fail("[remote] {} did not come{}: {}\n  {}", file.what, part, without_room(problem),
           some ? "what came is kept: run again to go on from there"
                : "check the network, then run again");
    }
    back_off(patience, attempt);
  }
  partial.verify();
  partial.publish(to);
}

}  // namespace kinema::remote
