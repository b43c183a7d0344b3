// Several engines in one process, each as if in a process of its own.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/world/tcp_engine.h"
#include "kinema/world/tcp_socket.h"

namespace kinema::world {

using Engines = std::vector<std::shared_ptr<Engine>>;

/// A port that was free a moment ago.
inline std::string free_address() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof at;
  EXPECT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&at), &length), 0);
  close(socket);
  return fmt::format("127.0.0.1:{}", ntohs(at.sin_port));
}

/// `wanted`: per process its number and the number of processes it was told; returns the engine or
/// throws.
inline std::vector<std::future<std::shared_ptr<Engine>>> start(
    const std::string& coordinator, const std::vector<std::pair<int64_t, int64_t>>& wanted,
    double seconds = 60) {
  std::vector<std::future<std::shared_ptr<Engine>>> out;
  for (const auto& [rank, size] : wanted) {
    out.push_back(std::async(std::launch::async, [rank = rank, size = size, coordinator, seconds] {
      return join_over_tcp(
          {.rank = rank, .size = size, .coordinator = coordinator, .seconds = seconds});
    }));
  }
  return out;
}

inline Engines join(int64_t size, const std::string& coordinator = free_address()) {
  std::vector<std::pair<int64_t, int64_t>> all;
  for (int64_t rank = 0; rank < size; ++rank) {
    all.emplace_back(rank, size);
  }
  Engines out;
  for (auto& each : start(coordinator, all)) {
    out.push_back(each.get());
  }
  return out;
}

inline void wait(Pending& message) {
  for (const Stopwatch watch; !message.done();) {
    check(watch.seconds() < 60, "no message came");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// The text of a received message; waits for it.
inline std::string text_of(Pending& message) {
  wait(message);
  return message.message().text();
}

/// A stranger that connects to an open port.
class Stranger {
 public:
  explicit Stranger(const std::string& address) {
    for (const Stopwatch watch; !socket_ && watch.seconds() < 20;) {
      socket_ = connect_to(parts_of(address), std::chrono::milliseconds(1000));
    }
    check(socket_.has_value(), "nobody listens at {}", address);
  }
  void say(const std::string& text) const {
    send_all(*socket_, text, std::chrono::milliseconds(1000));
  }
  /// The data received until the connection ends.
  std::string hear() const {
    std::string out;
    std::optional<std::string> more = "";
    for (const Stopwatch watch; more && watch.seconds() < 20; more = read_some(*socket_)) {
      out += *more;
      wait_for(*socket_, std::chrono::milliseconds(100));
    }
    return out;
  }

 private:
  std::optional<io::Descriptor> socket_;
};

}  // namespace kinema::world
