#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "kinema/io/descriptor.h"
#include "kinema/io/json.h"

namespace kinema::serve {

/// JSON objects, one a line, over a socket between two processes.
class Channel {
 public:
  explicit Channel(io::Descriptor socket) : socket_(std::move(socket)) {}

  /// False if the other side has closed, or takes nothing for five seconds. From any thread.
  bool send(const io::Json& message);
  /// The next message; nothing after `time`, or at the end (`is_ended`). A line that is no JSON or
  /// has more than 16 MiB ends it. From one thread.
  std::optional<io::Json> receive(std::chrono::milliseconds time);
  bool is_ended() const { return is_ended_; }
  int descriptor() const { return socket_.get(); }

 private:
  io::Descriptor socket_;
  std::mutex sending_;
  std::string received_;
  bool is_ended_ = false;
};

}  // namespace kinema::serve
