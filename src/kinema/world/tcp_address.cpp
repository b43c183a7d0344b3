#include "kinema/world/tcp_address.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <thread>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"

namespace kinema::world {

HostPort parts_of(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  const bool has_port = colon != std::string::npos && colon > 0;
  const char* const end = address.data() + address.size();
  const auto [stop, error] =
      has_port ? std::from_chars(address.data() + colon + 1, end, port)
               : std::from_chars_result{.ptr = nullptr, .ec = std::errc::invalid_argument};
  std::string host = address.substr(0, has_port ? colon : 0);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  check(has_port && error == std::errc() && stop == end && port > 0 && port < 65536 &&
            !host.empty() && (host.find(':') == std::string::npos || address.front() == '['),
        "[coordinator_address] `{}`: HOST:PORT of process 0 was expected, such as 10.0.0.2:8476",
        address);
  check(host != "0.0.0.0" && host != "::" && host != "*",
        "[coordinator_address] `{}` is not a specific host: expected process 0's, by a name or "
        "address at which all processes "
        "reach it",
        address);
  return {.host = host, .port = std::to_string(port)};
}

Addresses resolve(const HostPort& at) {
  const addrinfo wanted{.ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int status = getaddrinfo(at.host.c_str(), at.port.c_str(), &wanted, &found);
  return {status == 0 ? found : nullptr, &freeaddrinfo};
}

std::string text_of(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return address->sa_family == AF_INET6 ? fmt::format("[{}]", text.data()) : text.data();
}

namespace {

/// This host's address from which the coordinator can be reached. Sends nothing.
std::string own_address(const Addresses& coordinator) {
  const int socket = ::socket(coordinator->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const bool known = socket >= 0 &&
                     connect(socket, coordinator->ai_addr, coordinator->ai_addrlen) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  const std::string text = known ? text_of(reinterpret_cast<sockaddr*>(&own), length) : "";
  if (socket >= 0) {
    close(socket);
  }
  return text;
}

}  // namespace

bool is_own_address(const std::string& coordinator) {
  const Addresses found = resolve(parts_of(coordinator));
  const std::string own = found ? own_address(found) : "";
  return own.empty() || own == text_of(found->ai_addr, found->ai_addrlen);
}

std::string wait_until_reachable(const TcpOptions& options) {
  const HostPort at = parts_of(options.coordinator);
  constexpr double kLong = 5;
  bool said = false;
  for (const Stopwatch watch;;) {
    const Addresses found = resolve(at);
    if (std::string own = found ? own_address(found) : ""; !own.empty()) {
      return own;
    }
    check(
        watch.seconds() < options.seconds, "[coordinator_address] `{}`: {} within {:g} s",
        options.coordinator,
        found ? "there is no route to it from this host" : "the host's name could not be resolved",
        options.seconds);
    if (!said && options.on_wait && watch.seconds() > kLong) {
      said = true;
      options.on_wait(fmt::format(
          "`{}`: {} yet; retrying for {:g} s", options.coordinator,
          found ? "there is no route to it from this host" : "the host's name cannot be resolved",
          options.seconds));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace kinema::world
