#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace kinema::remote {

/// A client's request.
struct Received {
  std::string method;
  std::string target;                          // path and query
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

/// The server's reply, and how the transfer misbehaves.
struct Reply {
  int status = 200;
  std::vector<std::string> headers = {};
  std::string body = {};
  /// The connection is closed after this many bytes of the body; -1: never.
  int64_t cut_after = -1;
  /// After `cut_after` bytes the transfer stalls, with the connection open for a while.
  bool stall = false;
};

/// A server on 127.0.0.1 with its own port, one connection per request.
class TestServer {
 public:
  using Handler = std::function<Reply(const Received&)>;

  explicit TestServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, any, size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, any, &size) != 0) {
      throw std::runtime_error("no socket for the test server");
    }
    port_ = ntohs(address.sin_port);
    accepting_ = std::jthread([this] { accept_all(); });
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;
  ~TestServer() {
    stop_ = true;
    accepting_.join();
    {
      const std::scoped_lock lock(mutex_);
      serving_.clear();  // joins
    }
    ::close(listener_);
  }

  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  /// All requests, in order.
  std::vector<Received> received() const {
    const std::scoped_lock lock(mutex_);
    return received_;
  }
  /// The number of requests of a method whose target begins with `target`.
  int64_t count(const std::string& method, const std::string& target) const {
    return std::ranges::count_if(received(), [&](const Received& r) {
      return r.method == method && r.target.starts_with(target);
    });
  }

 private:
  void accept_all() {
    while (!stop_) {
      pollfd ready{.fd = listener_, .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, 20) <= 0) {
        continue;
      }
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection >= 0) {
        const std::scoped_lock lock(mutex_);
        serving_.emplace_back([this, connection] { serve(connection); });
      }
    }
  }

  void serve(int connection) {
    Received request;
    if (read_request(connection, request)) {
      {
        const std::scoped_lock lock(mutex_);
        received_.push_back(request);
      }
      answer(connection, request.method == "HEAD", handler_(request));
    }
    ::close(connection);
  }

  static bool read_more(int connection, std::string& text) {
    char buffer[65536];
    const ssize_t got = ::recv(connection, buffer, sizeof(buffer), 0);
    if (got > 0) {
      text.append(buffer, static_cast<size_t>(got));
    }
    return got > 0;
  }

  static bool read_request(int connection, Received& request) {
    std::string text;
    size_t end = 0;
    while ((end = text.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more(connection, text)) {
        return false;
      }
    }
    const size_t line = text.find("\r\n");
    const size_t space = text.find(' ');
    request.method = text.substr(0, space);
    request.target = text.substr(space + 1, text.find(' ', space + 1) - space - 1);
    for (size_t at = line + 2; at < end;) {
      const size_t next = text.find("\r\n", at);
      const size_t colon = text.find(':', at);
      std::string name = text.substr(at, colon - at);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      request.headers[name] = text.substr(colon + 2, next - colon - 2);
      at = next + 2;
    }
    if (request.header("expect") == "100-continue") {
      send_all(connection, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    const std::string length = request.header("content-length");
    size_t size = 0;
    std::from_chars(length.data(), length.data() + length.size(), size);
    request.body = text.substr(end + 4);
    while (request.body.size() < size) {
      if (!read_more(connection, request.body)) {
        return false;
      }
    }
    return true;
  }

  void answer(int connection, bool head, const Reply& reply) {
    std::string text = fmt::format("HTTP/1.1 {} X\r\nConnection: close\r\n", reply.status);
    bool length = false;
    for (const std::string& line : reply.headers) {
      text += line + "\r\n";
      length = length || line.starts_with("Content-Length:");
    }
    if (!length) {
      text += fmt::format("Content-Length: {}\r\n", reply.body.size());
    }
    text += "\r\n";
    send_all(connection, text);
    if (head) {
      return;
    }
    send_all(connection, reply.cut_after < 0
                             ? reply.body
                             : reply.body.substr(0, static_cast<size_t>(reply.cut_after)));
    // A stalled transfer stays open until the client gives up.
    while (reply.stall && !stop_) {
      pollfd gone{.fd = connection, .events = POLLIN, .revents = 0};
      if (::poll(&gone, 1, 20) > 0) {
        return;
      }
    }
  }

  static void send_all(int connection, const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const ssize_t sent = ::send(connection, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) {
        return;
      }
      at += static_cast<size_t>(sent);
    }
  }

  Handler handler_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;
  std::vector<Received> received_;
  std::vector<std::jthread> serving_;
  std::jthread accepting_;
};

}  // namespace kinema::remote
