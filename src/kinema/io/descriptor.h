#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace kinema::io {

/// A file descriptor with one owner, closed when the owner goes.
class Descriptor {
 public:
  Descriptor() = default;
  /// Takes what a system call gave; a negative number is none.
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  /// open(2), never inherited by other programs; `errno` says why there is none.
  static Descriptor open(const std::filesystem::path& path, int flags, mode_t mode = 0);

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// Closes it now; `errno` stays as it is.
  void close();

 private:
  int fd_ = -1;
};

enum class Lock : bool { WAIT, TRY };
/// Takes a file for this descriptor alone (flock) until it is closed. False with `errno`, which for
/// TRY is EWOULDBLOCK while somebody else has it.
bool lock(const Descriptor& file, Lock how);

/// Writes all bytes, at the file's position or, where `at` is not negative, from there on. Gives 0,
/// or the errno of what failed; where nothing more can be written without an errno, ENOSPC.
int write_all(const Descriptor& file, std::span<const std::byte> bytes, int64_t at = -1);

/// Reads until `to` is full or the file ends, at the file's position. Gives the number of bytes, or
/// -1 with `errno`.
ssize_t read_all(const Descriptor& file, std::span<std::byte> to);

}  // namespace kinema::io
