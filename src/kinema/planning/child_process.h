#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

namespace kinema::planning {

struct ChildCommand {
  std::filesystem::path executable;
  std::vector<std::string> arguments;  // without the program's name
  std::filesystem::path log;           // stdout and stderr
  int64_t memory_limit = 0;            // maximum of resident bytes; 0: no limit
  std::stop_token stop = {};           // kills it
};

/// How a child ended.
struct ChildStatus {
  int exit_code = -1;      // -1 if it was killed by a signal
  int signal = 0;          // 0 when it exited
  bool too_large = false;  // killed because of its memory
};

/// Runs a program and waits for it. It is killed when this process ends, and when it exceeds its
/// memory limit. Throws an Error if it cannot be started or if its status is lost because this
/// process ignores SIGCHLD, and Stopped after a stop request.
ChildStatus run_child(const ChildCommand& command);

}  // namespace kinema::planning
