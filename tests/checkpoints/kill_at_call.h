#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>

/// Processes that are killed at a chosen system call.
namespace kinema::checkpoints {

enum class Ended { DONE, KILLED, CANNOT_BE_TRACED };

/// Makes exchanging two file names fail in this process, as on file systems without it.
inline bool forbid_exchange() {
  std::array<sock_filter, 6> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args) + 4 * sizeof(uint64_t)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RENAME_EXCHANGE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Runs `work` in a child process, which is killed when it begins its `call`-th system call (from
/// 0).
inline Ended run_until_call(int64_t call, const std::function<void()>& work) {
  constexpr int kSystemCall = SIGTRAP | 0x80;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
      ::_exit(1);
    }
    ::raise(SIGSTOP);
    work();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) {
    return Ended::CANNOT_BE_TRACED;
  }
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  int64_t stops = 0;  // two per call: at its begin and at its end
  for (intptr_t signal = 0;;) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    ::waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) {
      return Ended::DONE;
    }
    signal = WSTOPSIG(status) == kSystemCall ? 0 : WSTOPSIG(status);
    if (signal == 0 && stops++ == 2 * call) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return Ended::KILLED;
    }
  }
}

}  // namespace kinema::checkpoints
