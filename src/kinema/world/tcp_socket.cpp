#include "kinema/world/tcp_socket.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "kinema/core/stopwatch.h"

namespace kinema::world {
namespace {

constexpr int kFlags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

/// The events of a socket; 0 after the timeout.
int poll_one(const io::Descriptor& socket, int events, std::chrono::milliseconds most) {
  pollfd item{.fd = socket.get(), .events = static_cast<int16_t>(events), .revents = 0};
  return poll(&item, 1, static_cast<int>(std::max<int64_t>(most.count(), 0))) > 0 ? item.revents
                                                                                  : 0;
}

/// True if both ends are the same socket: a system may assign that port to a connection to a free
/// port.
bool is_to_itself(const io::Descriptor& socket) {
  sockaddr_storage own{};
  sockaddr_storage other{};
  socklen_t own_length = sizeof own;
  socklen_t other_length = sizeof other;
  return getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &own_length) == 0 &&
         getpeername(socket.get(), reinterpret_cast<sockaddr*>(&other), &other_length) == 0 &&
         own_length == other_length && std::memcmp(&own, &other, own_length) == 0;
}

io::Descriptor listening(int family, const sockaddr* address, socklen_t length) {
  constexpr int kYes = 1;
  constexpr int kNo = 0;
  constexpr int kAtOnce = 4096;
  io::Descriptor out(socket(family, kFlags, 0));
  if (!out) {
    return out;
  }
  // The port of a run that has just ended may be reused.
  setsockopt(out.get(), SOL_SOCKET, SO_REUSEADDR, &kYes, sizeof kYes);
  if (family == AF_INET6) {
    setsockopt(out.get(), IPPROTO_IPV6, IPV6_V6ONLY, &kNo, sizeof kNo);
  }
  if (bind(out.get(), address, length) != 0 || listen(out.get(), kAtOnce) != 0) {
    out.close();
  }
  return out;
}

}  // namespace

io::Descriptor listen_at(const sockaddr* address, socklen_t length) {
  return listening(address->sa_family, address, length);
}

io::Descriptor listen_everywhere(const std::string& port) {
  uint16_t number = 0;
  std::from_chars(port.data(), port.data() + port.size(), number);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(number);
  six.sin6_addr = in6addr_any;
  io::Descriptor out = listen_at(reinterpret_cast<const sockaddr*>(&six), sizeof six);
  if (out || errno == EADDRINUSE) {
    return out;
  }
  sockaddr_in four{};  // a host without IPv6
  four.sin_family = AF_INET;
  four.sin_port = htons(number);
  return listen_at(reinterpret_cast<const sockaddr*>(&four), sizeof four);
}

void limit_backlog(const io::Descriptor& listening, int connections) {
  listen(listening.get(), connections);
}

std::optional<io::Descriptor> accept_from(const io::Descriptor& listening) {
  io::Descriptor out(accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  return out ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<io::Descriptor> connect_to(const HostPort& at, std::chrono::milliseconds most) {
  const Addresses found = resolve(at);
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    io::Descriptor out(socket(each->ai_family, kFlags, 0));
    if (!out) {
      continue;
    }
    int error = connect(out.get(), each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS && poll_one(out, POLLOUT, most) != 0) {
      socklen_t length = sizeof error;
      getsockopt(out.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error == 0 && !is_to_itself(out)) {
      return out;
    }
  }
  return std::nullopt;
}

bool send_all(const io::Descriptor& socket, const std::string& text,
              std::chrono::milliseconds most) {
  size_t sent = 0;
  for (const Stopwatch watch; sent < text.size();) {
    const ssize_t count = send(socket.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<size_t>(count);
      continue;
    }
    const auto left = most - std::chrono::milliseconds(static_cast<int64_t>(watch.seconds() * 1e3));
    const bool full = count < 0 && (errno == EAGAIN || errno == EINTR);
    if (!full || left.count() <= 0) {
      return false;
    }
    poll_one(socket, POLLOUT, left);
  }
  return true;
}

std::optional<std::string> read_some(const io::Descriptor& socket) {
  std::array<char, 4096> text;  // NOLINT(cppcoreguidelines-pro-type-member-init): is filled
  const ssize_t count = recv(socket.get(), text.data(), text.size(), 0);
  if (count > 0) {
    return std::string(text.data(), static_cast<size_t>(count));
  }
  const bool waits = count < 0 && (errno == EAGAIN || errno == EINTR);
  return waits ? std::optional<std::string>("") : std::nullopt;
}

void wait_for(const io::Descriptor& socket, std::chrono::milliseconds most) {
  poll_one(socket, POLLIN, most);
}

}  // namespace kinema::world
