#include "train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "core/error.h"

namespace kinema::train {

namespace {

/// What the holder wrote into the lock file: its process number, or nothing readable.
std::string holder(int fd) {
  std::array<char, 32> text{};
  const ssize_t got = ::pread(fd, text.data(), text.size() - 1, 0);
  const std::string pid(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  return pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos ? "another process"
                                                                                 : "process " + pid;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run_folder) {
  std::error_code error;
  std::filesystem::create_directories(run_folder, error);
  check(!error, "[train] run folder {} cannot be made: {}", run_folder.string(), error.message());
  const std::string path = (run_folder / ".lock").string();
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  check(fd_ >= 0, "[train] {} cannot be opened: {}", path, std::strerror(errno));
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    const std::string who = holder(fd_);
    ::close(fd_);
    check(reason == EWOULDBLOCK, "[train] {} cannot be locked: {}", path, std::strerror(reason));
    fail("[train] run folder {} is in use by {}\n  wait for it, stop it, or give another run_name",
         run_folder.string(), who);
  }
  const std::string pid = std::to_string(::getpid());
  // The number only helps the message above; the lock itself is what counts.
  if (::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, pid.data(), pid.size(), 0) < 0) {
    errno = 0;
  }
}

RunLock::~RunLock() { ::close(fd_); }

}  // namespace kinema::train
