#include "kinema/io/descriptor.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace kinema::io {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Descriptor::~Descriptor() { close(); }

Descriptor Descriptor::open(const std::filesystem::path& path, int flags, mode_t mode) {
  return Descriptor(::open(path.c_str(), flags | O_CLOEXEC, mode));
}

void Descriptor::close() {
  if (fd_ >= 0) {
    const int kept = errno;
    ::close(std::exchange(fd_, -1));
    errno = kept;
  }
}

bool lock(const Descriptor& file, Lock how) {
  const int operation = LOCK_EX | (how == Lock::TRY ? LOCK_NB : 0);
  int result = 0;
  do {
    result = ::flock(file.get(), operation);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

int write_all(const Descriptor& file, std::span<const std::byte> bytes, int64_t at) {
  while (!bytes.empty()) {
    const ssize_t written = at < 0 ? ::write(file.get(), bytes.data(), bytes.size())
                                   : ::pwrite(file.get(), bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return written < 0 ? errno : ENOSPC;
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
    at += at < 0 ? 0 : written;
  }
  return 0;
}

ssize_t read_all(const Descriptor& file, std::span<std::byte> to) {
  size_t size = 0;
  while (size < to.size()) {
    const ssize_t got = ::read(file.get(), to.data() + size, to.size() - size);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return got;
    }
    if (got == 0) {
      break;
    }
    size += static_cast<size_t>(got);
  }
  return static_cast<ssize_t>(size);
}

}  // namespace kinema::io
