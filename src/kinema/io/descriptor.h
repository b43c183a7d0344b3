#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace kinema::io {

/// A file descriptor with one owner, closed by the destructor.
class Descriptor {
 public:
  Descriptor() = default;
  /// Takes ownership of a system call's result; negative numbers are empty.
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  /// open(2) with O_CLOEXEC; empty with `errno` on failure.
  static Descriptor open(const std::filesystem::path& path, int flags, mode_t mode = 0);

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// Closes it; `errno` is unchanged.
  void close();

 private:
  int fd_ = -1;
};

enum class Lock : bool { WAIT, TRY };
/// Locks a file (flock) for this descriptor until it is closed. Returns false with `errno` on
/// failure, which for TRY is EWOULDBLOCK if another process has the lock.
bool lock(const Descriptor& file, Lock how);

/// Writes all bytes, at the file's position or, if `at` is not negative, from there. Returns 0 or
/// the errno of the failure; ENOSPC if nothing more can be written without an errno.
int write_all(const Descriptor& file, std::span<const std::byte> bytes, int64_t at = -1);

/// Reads until `to` is full or the file ends, at the file's position. Returns the number of bytes,
/// or -1 with `errno`.
ssize_t read_all(const Descriptor& file, std::span<std::byte> to);

}  // namespace kinema::io
