#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kinema::world {

/// The handshake request of a process to process 0: a line of JSON.
struct HandshakeRequest {
  static constexpr size_t kMostBytes = 4096;

  int64_t rank = 0;
  int64_t size = 1;     ///< of the run, as set in this process
  std::string address;  ///< where it listens
  std::string token;    ///< a random number that identifies it if it connects again
};

/// The result of the handshake, known to all.
struct HandshakeResult {
  std::string secret;                  ///< of this run: connections without it are rejected
  std::vector<std::string> addresses;  ///< `tcp://10.0.0.2:41234`, where each listens, by rank
};

/// The reply of process 0: the result, or an error.
struct HandshakeReply {
  static constexpr size_t kMostBytes = 1 << 20;  // a thousand addresses have 40 thousand bytes

  HandshakeResult result;
  std::string error;
};

/// A line with its line break.
std::string to_line(const HandshakeRequest& request);
std::string to_line(const HandshakeReply& reply);

/// Nothing for invalid lines: any program may connect to an open port.
std::optional<HandshakeRequest> parse_request(std::string_view line);
std::optional<HandshakeReply> parse_reply(std::string_view line);

}  // namespace kinema::world
