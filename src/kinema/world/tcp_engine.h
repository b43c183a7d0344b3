#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kinema/world/engine.h"

namespace kinema::world {

/// The coordinator for processes without a launcher that connects them.
struct TcpOptions {
  int64_t rank = 0;
  int64_t size = 1;
  /// `host:port` where process 0 listens; `[::1]:port` for IPv6.
  std::string coordinator;
  double seconds = 300;  ///< timeout for the other processes
  /// Called once with a log line if connecting takes long.
  std::function<void(const std::string&)> on_wait = {};
};

/// Messages over TCP by ZeroMQ, with connections between all pairs of processes; returns when all
/// are connected. Unauthenticated connections are closed; nothing is encrypted. Throws an Error
/// with the processes that did not connect before the timeout, for a duplicate rank or a different
/// size, and for a port that is in use.
std::shared_ptr<Engine> join_over_tcp(const TcpOptions& options);

}  // namespace kinema::world
