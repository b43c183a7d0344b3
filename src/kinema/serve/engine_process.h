#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kinema/serve/channel.h"
#include "kinema/serve/child.h"

namespace kinema::serve {

/// An engine in a process of its own, which ends with this object and with the thread that made it.
class EngineProcess {
 public:
  /// Throws an Error if no process or socket can be made.
  EngineProcess(const std::vector<std::string>& command, const std::filesystem::path& log);

  Channel& channel() { return *channel_; }
  Child& child() { return *child_; }
  std::string model;  // of the last request

 private:
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<Child> child_;
};

}  // namespace kinema::serve
