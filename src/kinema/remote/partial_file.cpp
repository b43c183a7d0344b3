#include "kinema/remote/partial_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/records/crc32c.h"

namespace kinema::remote {

namespace fs = std::filesystem;

PartialFile::PartialFile(fs::path path, ExpectedContent expected)
    : path_(std::move(path)), expected_(std::move(expected)) {
  open_locked();
  struct stat status {};
  ::fstat(file_.get(), &status);
  if (expected_.size >= 0 && status.st_size > expected_.size) {
    restart();
  } else {
    read_back();
  }
}

PartialFile::~PartialFile() {
  if (size_ == 0 && !published_) {
    remove();
  }
}

void PartialFile::open_locked() {
  while (true) {
    file_ = io::Descriptor::open(path_, O_RDWR | O_CREAT, 0644);
    check(file_ && io::lock(file_, io::Lock::WAIT), "[remote] cannot write {}: {}", path_.string(),
          errno_text(errno));
    // The previous owner of the lock may have published or removed the file.
    struct stat ours {};
    struct stat there {};
    ::fstat(file_.get(), &ours);
    if (::stat(path_.c_str(), &there) == 0 && there.st_ino == ours.st_ino) {
      return;
    }
  }
}

void PartialFile::restart() {
  check(::ftruncate(file_.get(), 0) == 0 && ::lseek(file_.get(), 0, SEEK_SET) == 0,
        "[remote] cannot write {}: {}", path_.string(), errno_text(errno));
  size_ = 0;
  begin_digest();
}

void PartialFile::remove() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

void PartialFile::append(std::span<const std::byte> bytes) {
  check(expected_.size < 0 || size_ + static_cast<int64_t>(bytes.size()) <= expected_.size,
        "[remote] {} should have {} bytes, but the server sent more", expected_.what,
        expected_.size);
  take(bytes);
  const int error = io::write_all(file_, bytes);
  check(error == 0, "[remote] cannot write {}: {}", path_.string(), errno_text(error));
  size_ += std::ssize(bytes);
}

void PartialFile::verify() {
  if (expected_.crc32c && *expected_.crc32c != crc_) {
    remove();
    fail(
        "[remote] {} has CRC-32C {:08x}, expected {:08x}: it was corrupted in transit, and is "
        "removed",
        expected_.what, crc_, *expected_.crc32c);
  }
  const std::string& expected = expected_.sha256.empty() ? expected_.git_sha1 : expected_.sha256;
  if (!digest_ || expected.empty()) {
    return;
  }
  const std::string actual = digest_->hex();
  if (actual != expected) {
    remove();
    fail("[remote] {} has {} {}, expected {}: it was corrupted in transit, and is removed",
         expected_.what, expected_.sha256.empty() ? "git id" : "sha256", actual, expected);
  }
}

void PartialFile::publish(const fs::path& to) {
  check(::fsync(file_.get()) == 0, "[remote] cannot write {}: {}", path_.string(),
        errno_text(errno));
  fs::rename(path_, to);
  published_ = true;
}

void PartialFile::take(std::span<const std::byte> bytes) {
  if (digest_) {
    digest_->update(bytes);
  }
  if (expected_.crc32c) {
    crc_ = records::crc32c(bytes, crc_);
  }
}

void PartialFile::begin_digest() {
  digest_.reset();
  crc_ = 0;
  if (!expected_.sha256.empty()) {
    digest_ = std::make_unique<Digest>(Digest::Kind::SHA256);
  } else if (!expected_.git_sha1.empty() && expected_.size >= 0) {
    digest_ = std::make_unique<Digest>(Digest::Kind::SHA1);
    const std::string head = fmt::format("blob {}", expected_.size);
    digest_->update(
        std::string_view(head.c_str(), head.size() + 1));  // git terminates it with a zero
  }
}

void PartialFile::read_back() {
  begin_digest();
  std::vector<std::byte> buffer(size_t{1} << 20);
  for (;;) {
    const ssize_t got = io::read_all(file_, buffer);
    check(got >= 0, "[remote] cannot read {}: {}", path_.string(), errno_text(errno));
    if (got == 0) {
      return;
    }
    size_ += got;
    take(std::span(buffer).first(static_cast<size_t>(got)));
  }
}

}  // namespace kinema::remote
