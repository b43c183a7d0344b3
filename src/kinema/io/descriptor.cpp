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

}  // namespace kinema::io
