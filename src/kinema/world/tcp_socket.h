#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "kinema/io/descriptor.h"
#include "kinema/world/tcp_address.h"

/// Sockets of the meeting. None waits by itself, and none is inherited by other programs.
namespace kinema::world {

/// Listens at an address, with room for a thousand that come at once. Without a socket `errno` says
/// why.
io::Descriptor listen_at(const sockaddr* address, socklen_t length);
/// The same at all addresses of this host.
io::Descriptor listen_everywhere(const std::string& port);

/// The next one that has come; nothing where none has.
std::optional<io::Descriptor> accept_from(const io::Descriptor& listening);

/// A connection, to the first of the host's addresses that answers; nothing where none does in
/// time.
std::optional<io::Descriptor> connect_to(const HostPort& at, std::chrono::milliseconds most);

/// Whether all of a text was taken in time.
bool send_all(const io::Descriptor& socket, const std::string& text,
              std::chrono::milliseconds most);

/// What has come, at most 4,096 bytes; empty where nothing has, nothing where the connection ended.
std::optional<std::string> read_some(const io::Descriptor& socket);

/// Waits until something has come, or the connection ended.
void wait_for(const io::Descriptor& socket, std::chrono::milliseconds most);

}  // namespace kinema::world
