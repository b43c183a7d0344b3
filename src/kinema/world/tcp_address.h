#pragma once

#include <netdb.h>

#include <memory>
#include <string>

#include "kinema/world/tcp_engine.h"

namespace kinema::world {

/// An address that people gave, in its parts.
struct HostPort {
  std::string host;  ///< without brackets
  std::string port;
};

/// Throws an Error for what is no `host:port` of one host.
HostPort parts_of(const std::string& address);

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// For TCP. Empty while the name means nothing: name servers learn of new hosts late.
Addresses resolve(const HostPort& at);

/// An address as ZeroMQ wants it: `10.0.0.2`, `[::1]`.
std::string text_of(const sockaddr* address, socklen_t length);

/// Whether an address is this host's: then it is reached from itself. True where that is not known.
bool is_here(const std::string& coordinator);

/// Waits until the coordinator's name means an address that this host has a way to; the address of
/// this host from which it is reached.
std::string wait_for_way(const TcpMeeting& meeting);

}  // namespace kinema::world
