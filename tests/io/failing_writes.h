#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

/// Replaces write(2) and pwrite(2) of the test program, to fail as some disks and file systems do.
/// Include it in one file of a program.
namespace kinema::io {

/// Return values of the next calls: -1 with EINTR, or 0 while `errno` is EINTR from an earlier
/// call.
struct FailingWrites {
  static inline std::atomic<int> interrupted = 0;
  static inline std::atomic<int> empty = 0;

  FailingWrites(int interrupted_calls, int empty_calls) {
    interrupted = interrupted_calls;
    empty = empty_calls;
  }
  FailingWrites(const FailingWrites&) = delete;
  FailingWrites& operator=(const FailingWrites&) = delete;
  ~FailingWrites() { interrupted = empty = 0; }

  static bool fails(ssize_t& result) {
    if (interrupted > 0) {
      --interrupted;
      errno = EINTR;
      result = -1;
      return true;
    }
    if (empty > 0) {
      --empty;
      errno = EINTR;
      result = 0;
      return true;
    }
    return false;
  }
};

}  // namespace kinema::io

extern "C" ssize_t write(int fd, const void* bytes, size_t size) {
  ssize_t result = 0;
  return kinema::io::FailingWrites::fails(result) ? result : ::syscall(SYS_write, fd, bytes, size);
}

extern "C" ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  ssize_t result = 0;
  return kinema::io::FailingWrites::fails(result) ? result
                                                  : ::syscall(SYS_pwrite64, fd, bytes, size, at);
}
