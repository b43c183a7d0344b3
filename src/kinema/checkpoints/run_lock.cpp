#include "kinema/checkpoints/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"

namespace kinema::checkpoints {

namespace {

/// What the owner wrote into the lock file: its process ID, or text that is not one.
std::string holder(int fd) {
  std::array<char, 32> text{};
  const ssize_t got = ::pread(fd, text.data(), text.size() - 1, 0);
  const std::string pid(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  if (pid == std::to_string(::getpid())) {
    return "another job of this process";
  }
  return pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos ? "another process"
                                                                                 : "process " + pid;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run_folder)
    : folder_(run_folder), path_(run_folder / ".lock") {
  folder_.make();
  std::error_code ignored;
  made_ = !std::filesystem::exists(path_, ignored);
  take();
  // The previous owner may have ended with an error and removed the file.
  for (int tries = 0; !is_in_place() && tries < 5; ++tries) {
    folder_.make();
    take();
  }
  const std::string pid = std::to_string(::getpid());
  // The number is only for the message; the lock is what matters.
  if (::ftruncate(file_.get(), 0) == 0 && ::pwrite(file_.get(), pid.data(), pid.size(), 0) < 0) {
    errno = 0;
  }
}

RunLock::~RunLock() {
  std::error_code error;
  std::filesystem::directory_iterator first(folder_.path(), error);
  const bool is_alone = !error && made_ && first != std::filesystem::directory_iterator() &&
                        first->path() == path_ &&
                        first.increment(error) == std::filesystem::directory_iterator();
  if (is_alone && !error && is_in_place()) {
    std::filesystem::remove(path_, error);
  }
}

/// Opens the file and locks it.
void RunLock::take() {
  const std::string path = path_.string();
  file_ = io::Descriptor::open(path, O_RDWR | O_CREAT, 0644);
  check(static_cast<bool>(file_), "[train] {} cannot be opened: {}", path, errno_text(errno));
  bool is_ours = io::lock(file_, io::Lock::TRY);
  // is_training holds it for a moment.
  for (int tries = 0; !is_ours && errno == EWOULDBLOCK && tries < 5; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    is_ours = io::lock(file_, io::Lock::TRY);
  }
  if (!is_ours) {
    const int reason = errno;
    const std::string who = holder(file_.get());
    check(reason == EWOULDBLOCK, "[train] {} cannot be locked: {}", path, errno_text(reason));
    fail("[train] run folder {} is in use by {}\n  wait for it, stop it, or give another run_name",
         folder_.path().string(), who);
  }
}

bool is_training(const std::filesystem::path& run_folder) {
  const io::Descriptor file = io::Descriptor::open(run_folder / ".lock", O_RDONLY);
  // A shared lock, released immediately: a run that starts at this moment tries again.
  return file && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool RunLock::is_in_place() const {
  struct stat ours {};
  struct stat there {};
  // Inode numbers are not compared, because they change on some network file systems. Other errors
  // than ENOENT do not show that the file was removed.
  const bool is_named = ::stat(path_.c_str(), &there) == 0 || errno != ENOENT;
  return is_named && (::fstat(file_.get(), &ours) != 0 || ours.st_nlink > 0);
}

}  // namespace kinema::checkpoints
