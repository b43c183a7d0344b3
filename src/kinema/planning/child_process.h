#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

namespace kinema::planning {

struct ChildCommand {
  std::filesystem::path executable;
  std::vector<std::string> arguments;  // after the program's name
  std::filesystem::path log;           // stdout and stderr
  int64_t memory_limit = 0;            // bytes it may keep resident; 0: no limit
  std::stop_token stop = {};           // ends it
};

/// How a child ended.
struct ChildStatus {
  int exit_code = -1;      // -1 when a signal ended it
  int signal = 0;          // 0 when it exited
  bool too_large = false;  // it was ended for its memory
};

/// Runs a program and waits for it. It is ended when this process ends, and when it keeps more
/// memory than it may. Throws an Error when it cannot be started or where its status is lost
/// because this process ignores SIGCHLD, and Stopped once that is asked for.
ChildStatus run_child(const ChildCommand& command);

}  // namespace kinema::planning
