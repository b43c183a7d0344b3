#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "kinema/io/descriptor.h"
#include "kinema/world/tcp_address.h"

/// Sockets of the handshake. All are non-blocking and closed on exec.
namespace kinema::world {

/// Listens at an address, with a backlog of a thousand connections. Empty with `errno` on failure.
io::Descriptor listen_at(const sockaddr* address, socklen_t length);
/// The same at all addresses of this host.
io::Descriptor listen_everywhere(const std::string& port);

/// Limits a listening socket's backlog: the system then ignores further connections until some are
/// accepted, at no cost for this process.
void limit_backlog(const io::Descriptor& listening, int connections);

/// The next connection; nothing if there is none.
std::optional<io::Descriptor> accept_from(const io::Descriptor& listening);

/// A connection to the first of the host's addresses that answers; nothing after the timeout.
std::optional<io::Descriptor> connect_to(const HostPort& at, std::chrono::milliseconds most);

/// True if the whole text was sent before the timeout.
bool send_all(const io::Descriptor& socket, const std::string& text,
              std::chrono::milliseconds most);

/// Received bytes, at most 4,096; empty if there are none, nothing if the connection ended.
std::optional<std::string> read_some(const io::Descriptor& socket);

/// Waits for bytes, or for the end of the connection.
void wait_for(const io::Descriptor& socket, std::chrono::milliseconds most);

}  // namespace kinema::world
