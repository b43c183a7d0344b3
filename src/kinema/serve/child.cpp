#include "kinema/serve/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "kinema/core/address_space.h"
#include "kinema/core/error.h"

namespace kinema::serve {
namespace {

struct Exec {
  const char* program;
  char* const* argv;
  const char* log;
  const char* out;
  const char* folder;
  int socket;
  bool ends_with_parent;
  pid_t parent;
};

/// In the child, where nothing may allocate: other threads of the parent may have held locks.
[[noreturn]] void execute(const Exec& exec) {
  if (exec.ends_with_parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != exec.parent) {
      _exit(127);  // it ended before the line above
    }
  } else {
    setsid();
  }
  for (const int number : {SIGCHLD, SIGPIPE, SIGTERM, SIGINT, SIGHUP}) {
    ::signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int log = open(exec.log, O_WRONLY | O_CREAT | O_APPEND, 0600);
  const int in = open("/dev/null", O_RDONLY);
  const int out = exec.out[0] == '\0' ? log : open(exec.out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (log < 0 || in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(log, 2) < 0) {
    _exit(127);
  }
  unsigned int first = 3;
  if (exec.socket >= 0) {
    // dup2 leaves the flag of closing on exec as it is where both are equal.
    if (dup2(exec.socket, 3) < 0 || fcntl(3, F_SETFD, 0) < 0) {
      _exit(127);
    }
    first = 4;
  }
  // Connections of clients would stay open as long as the child. Before Linux 5.9, one by one.
  if (syscall(SYS_close_range, first, ~0U, 0) != 0) {
    for (unsigned int i = first; i < 65536; ++i) {
      close(static_cast<int>(i));
    }
  }
  if (exec.folder[0] != '\0' && chdir(exec.folder) != 0) {
    _exit(127);
  }
  execv(exec.program, exec.argv);
  _exit(127);
}

}  // namespace

pid_t start_child(const ChildStart& start) {
  std::vector<std::string> words = start.command;
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  const std::string log = start.log.string();
  const std::string out = start.out.string();
  const std::string folder = start.folder.string();
  const Exec exec{.program = argv.front(),
                  .argv = argv.data(),
                  .log = log.c_str(),
                  .out = out.c_str(),
                  .folder = folder.c_str(),
                  .socket = start.socket == nullptr ? -1 : start.socket->get(),
                  .ends_with_parent = start.ends_with_parent,
                  .parent = getpid()};
  const pid_t child = fork();
  check(child >= 0,
        "[serve] no process could be started: {}\n  raise the limit of processes (`ulimit -u`, the "
        "pids of a container) or of memory{}",
        std::strerror(errno), memory_remedy());
  if (child == 0) {
    execute(exec);
  }
  return child;
}

Child::~Child() {
  if (!ended()) {
    signal(SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void Child::signal(int number) const { kill(pid_, number); }

std::optional<std::string> Child::ended() {
  if (ended_) {
    return ended_;
  }
  int how = 0;
  pid_t got = 0;
  do {
    got = waitpid(pid_, &how, WNOHANG);
  } while (got < 0 && errno == EINTR);
  if (got == pid_) {
    ended_ = WIFSIGNALED(how) ? fmt::format("signal {}", WTERMSIG(how))
                              : fmt::format("exit status {}", WEXITSTATUS(how));
  } else if (got < 0) {
    ended_ = "an unknown status";
  }
  return ended_;
}

}  // namespace kinema::serve
