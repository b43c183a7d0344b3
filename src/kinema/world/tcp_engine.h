#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kinema/world/engine.h"

namespace kinema::world {

/// Where processes meet that no launcher tells of each other.
struct TcpMeeting {
  int64_t rank = 0;
  int64_t size = 1;
  /// `host:port`, where process 0 listens; `[::1]:port` of IPv6.
  std::string coordinator;
  double seconds = 300;  ///< how long to wait for the others
  /// Called once where that takes long, with a line for people.
  std::function<void(const std::string&)> on_wait = {};
};

/// Messages over TCP by ZeroMQ, each process to each; returns when all have come. Who speaks to the
/// port without being one of them is not heard; nothing is encrypted. Throws an Error that names
/// who did not come in time, for a number that two processes have or a size that differs, and for a
/// port that is taken.
std::shared_ptr<Engine> join_over_tcp(const TcpMeeting& meeting);

}  // namespace kinema::world
