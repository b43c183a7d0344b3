#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kinema/io/descriptor.h"

namespace kinema::http_test {

/// A TCP connection to this machine, with bytes in and out.
class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }
  bool is_open() const { return is_open_; }

  /// False when the other side has closed.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  /// Waits for more bytes; false at the end, or when none came in time.
  bool receive(std::chrono::milliseconds time = std::chrono::seconds(20)) {
    pollfd wait{.fd = socket_.get(), .events = POLLIN};
    if (poll(&wait, 1, static_cast<int>(time.count())) != 1) {
      return false;
    }
    char bytes[65536];
    const ssize_t got = recv(socket_.get(), bytes, sizeof(bytes), 0);
    if (got > 0) {
      received_.append(bytes, static_cast<size_t>(got));
    }
    is_ended_ = got <= 0;
    return got > 0;
  }

  /// Everything until the text has come, or the end.
  const std::string& read_until(std::string_view text) {
    while (received_.find(text) == std::string::npos && receive()) {
    }
    return received_;
  }
  /// Everything until the other side closes.
  const std::string& read_all() {
    while (receive()) {
    }
    return received_;
  }
  /// The next answer with its length, which is taken out of what was received.
  std::string read_answer() {
    read_until("\r\n\r\n");
    const size_t head = received_.find("\r\n\r\n") + 4;
    const size_t at = received_.find("Content-Length: ");
    const size_t length = at < head ? std::strtoul(received_.c_str() + at + 16, nullptr, 10) : 0;
    while (received_.size() < head + length && receive()) {
    }
    std::string out = received_.substr(0, head + length);
    received_.erase(0, head + length);
    return out;
  }
  const std::string& received() const { return received_; }
  bool is_ended() const { return is_ended_; }
  /// A small window, so that little is on the way when it does not read.
  void shrink() const {
    const int bytes = 4096;
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  }
  void shut_down_writing() const { ::shutdown(socket_.get(), SHUT_WR); }

 private:
  io::Descriptor socket_;
  std::string received_;
  bool is_open_ = false;
  bool is_ended_ = false;
};

}  // namespace kinema::http_test
