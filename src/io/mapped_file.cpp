#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace kinema::io {
namespace {

// Closes a descriptor on every way out; the mapping does not need it.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) {
      ::close(fd);
    }
  }
};

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path) {
  MappedFile file;
  file.path_ = path.string();
  // O_NONBLOCK: opening a fifo must not wait for a writer.
  const Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  check(descriptor.fd >= 0, "[io] cannot read {}: {}", file.path_, std::strerror(errno));
  struct stat status {};
  check(::fstat(descriptor.fd, &status) == 0, "[io] cannot read {}: {}", file.path_,
        std::strerror(errno));
  check(!S_ISDIR(status.st_mode), "[io] cannot read {}: it is a folder, a file was expected",
        file.path_);
  check(S_ISREG(status.st_mode), "[io] cannot read {}: it is not a regular file", file.path_);
  file.size_ = static_cast<size_t>(status.st_size);
  if (file.size_ == 0) {
    return file;  // mmap refuses a length of zero
  }
  void* data = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, descriptor.fd, 0);
  if (data == MAP_FAILED) {
    const int reason = errno;
    const size_t size = std::exchange(file.size_, 0);
    fail("[io] cannot map {} ({} bytes): {}", file.path_, size, std::strerror(reason));
  }
  file.data_ = static_cast<const std::byte*>(data);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

std::string read_text(const std::filesystem::path& path, size_t limit) {
  const MappedFile file = MappedFile::open(path);
  check(file.bytes().size() <= limit, "[io] {} has {} bytes, at most {} were expected", file.path(),
        file.bytes().size(), limit);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace kinema::io
