#pragma once

#include <netdb.h>

#include <memory>
#include <string>

#include "kinema/world/tcp_engine.h"

namespace kinema::world {

/// A `host:port` from the user.
struct HostPort {
  std::string host;  ///< without brackets
  std::string port;
};

/// Throws an Error for text that is not the `host:port` of one host.
HostPort parts_of(const std::string& address);

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Resolves for TCP. Empty if the name is unknown: name servers learn of new hosts late.
Addresses resolve(const HostPort& at);

/// An address in ZeroMQ's form: `10.0.0.2`, `[::1]`.
std::string text_of(const sockaddr* address, socklen_t length);

/// True if an address is this host's (it is then reached from itself), or if that is unknown.
bool is_own_address(const std::string& coordinator);

/// Waits until the coordinator's name resolves to an address that this host can reach; returns this
/// host's address for it.
std::string wait_until_reachable(const TcpOptions& options);

}  // namespace kinema::world
