#include "kinema/environments/python_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"

namespace kinema::environments {
namespace {

namespace fs = std::filesystem;

/// posix_spawn's attributes: its own process group, so that everything that an environment starts
/// can be ended, and none of this program's signal handling.
class Attributes {
 public:
  Attributes() {
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&value_);
    posix_spawnattr_setsigmask(&value_, &none);
    posix_spawnattr_setsigdefault(&value_, &all);
    posix_spawnattr_setpgroup(&value_, 0);
    posix_spawnattr_setflags(
        &value_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  ~Attributes() { posix_spawnattr_destroy(&value_); }
  const posix_spawnattr_t* get() const { return &value_; }

 private:
  posix_spawnattr_t value_{};
};

class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&value_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  ~FileActions() { posix_spawn_file_actions_destroy(&value_); }

  void open_null(int fd) {
    posix_spawn_file_actions_addopen(&value_, fd, "/dev/null", O_RDONLY, 0);
  }
  /// With fd equal to `from`, it only stays open in the new program.
  void copy(const io::Descriptor& from, int fd) {
    posix_spawn_file_actions_adddup2(&value_, from.get(), fd);
  }
  void keep(const io::Descriptor& file) { copy(file, file.get()); }
  const posix_spawn_file_actions_t* get() const { return &value_; }

 private:
  posix_spawn_file_actions_t value_{};
};

struct Ends {
  io::Descriptor here;
  io::Descriptor there;
};

Ends socket_pair() {
  std::array<int, 2> files{};
  check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, files.data()) == 0,
        "[environments] no socket to a Python process could be made: {}", errno_text(errno));
  return {io::Descriptor(files[0]), io::Descriptor(files[1])};
}

Ends output_pipe() {
  std::array<int, 2> files{};
  check(pipe2(files.data(), O_CLOEXEC) == 0,
        "[environments] no pipe from a Python process could be made: {}", errno_text(errno));
  return {io::Descriptor(files[0]), io::Descriptor(files[1])};
}

}  // namespace

fs::path server_script() {
  for (const char* place : {"envs.py", "../envs.py", "../share/kinema/envs.py"}) {
    fs::path path = (program_folder() / place).lexically_normal();
    std::error_code error;
    if (fs::is_regular_file(path, error)) {
      return path;
    }
  }
  fail(
      "[environments] envs.py, which runs environments in Python, is neither in {} nor in its "
      "../share/kinema\n  install kinema again, or copy share/kinema/envs.py there",
      program_folder().string());
}

PythonProcess::PythonProcess(const std::string& python, const io::Descriptor& shared) {
  Ends socket = socket_pair();
  Ends output = output_pipe();
  FileActions files;
  files.open_null(STDIN_FILENO);
  files.copy(output.there, STDOUT_FILENO);
  files.copy(output.there, STDERR_FILENO);
  files.keep(socket.there);
  files.keep(shared);
  std::vector<std::string> words{python,
                                 "-u",  // lines arrive when they are printed
                                 server_script().string(),
                                 "--connection",
                                 std::to_string(socket.there.get()),
                                 "--shared",
                                 std::to_string(shared.get())};
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  const Attributes attributes;
  const int error = posix_spawnp(&process_, python.c_str(), files.get(), attributes.get(),
                                 arguments.data(), environ);
  if (error != 0) {
    process_ = -1;
    fail(
        "[environments] the Python interpreter `{}` cannot be started: {}\n  install Python 3, or "
        "name another interpreter",
        python, errno_text(error));
  }
  socket_ = std::move(socket.here);
  printed_ = std::move(output.here);
}

bool PythonProcess::has_ended(int milliseconds) {
  for (int waited = 0; process_ > 0; ++waited) {
    const pid_t ended = waitpid(process_, &status_, WNOHANG);
    // A program that ignores SIGCHLD has no children to wait for.
    if (ended == process_ || (ended < 0 && errno != EINTR)) {
      kill(-process_, SIGKILL);  // what it started
      process_ = -1;
    } else if (waited >= milliseconds) {
      return false;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return true;
}

std::string PythonProcess::end() {
  constexpr int kEnding = 500;
  constexpr int kKilled = 10'000;
  if (!has_ended(kEnding)) {
    was_killed_ = true;
    kill(-process_, SIGKILL);
    has_ended(kKilled);
  }
  if (was_killed_) {
    return "killed";
  }
  if (WIFSIGNALED(status_)) {
    return fmt::format("signal {} ({})", WTERMSIG(status_), strsignal(WTERMSIG(status_)));
  }
  return fmt::format("exit status {}", WEXITSTATUS(status_));
}

PythonProcess::~PythonProcess() {
  constexpr int kClosing = 500;
  socket_.close();
  if (!has_ended(kClosing)) {
    end();
  }
}

}  // namespace kinema::environments
