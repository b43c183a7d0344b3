#include "kinema/planning/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "kinema/core/address_space.h"
#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"

namespace kinema::planning {
namespace {

/// Resident bytes of a process; 0 if it has ended.
int64_t resident_bytes(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/statm");
  int64_t total = 0;
  int64_t resident = 0;
  in >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// Runs in the child, where nothing may allocate, because other threads of the parent may have held
/// locks.
[[noreturn]] void become(const char* program, char* const* argv, const char* log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGCHLD,
              SIG_DFL);  // a program inherits ignored signals, and this one may have children
  if (getppid() != parent) {
    _exit(127);  // the parent ended before the line above
  }
  const int out = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (out < 0 || in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) {
    _exit(127);
  }
  execv(program, argv);
  _exit(127);
}

/// True if a child still runs; if not, `how` is its status from waitpid(2). Throws an Error if the
/// system has lost the status: a failure would look like success.
bool is_running(pid_t child, int& how) {
  pid_t ended = 0;
  do {
    ended = waitpid(child, &how, WNOHANG);
  } while (ended < 0 && errno == EINTR);
  check(ended >= 0,
        "[plan] how the compiler's process ended is not known: {}\n  a process that ignores "
        "SIGCHLD, or waits for all children in its handler, cannot run it: "
        "signal(SIGCHLD, SIG_DFL)",
        errno_text(errno));
  return ended == 0;
}

}  // namespace

ChildStatus run_child(const ChildCommand& command) {
  const std::string program = command.executable.string();
  const std::string log = command.log.string();
  std::vector<std::string> words{"kinema"};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  check(child >= 0,
        "[plan] no process for the compiler could be started: {}\n  raise the limit of processes "
        "(`ulimit -u`, the pids of a container) or of memory{}",
        errno_text(errno), memory_remedy());
  if (child == 0) {
    become(program.c_str(), argv.data(), log.c_str(), parent);
  }
  ChildStatus status;
  int how = 0;
  while (is_running(child, how)) {
    if (command.memory_limit > 0 && resident_bytes(child) > command.memory_limit) {
      status.too_large = true;
      kill(child, SIGKILL);
    }
    if (command.stop.stop_requested()) {
      kill(child, SIGKILL);
    }
    constexpr auto kPause = std::chrono::milliseconds(20);
    std::this_thread::sleep_for(kPause);
  }
  if (command.stop.stop_requested()) {
    throw Stopped();
  }
  status.exit_code = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
  status.signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
  return status;
}

}  // namespace kinema::planning
