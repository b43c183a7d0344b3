#pragma once

#include <string>

#include <zmq.hpp>

namespace kinema::world {

/// Checks the secret of connections to this process. ZeroMQ sends a request for each (ZAP, RFC 27)
/// before it reads a message of it, and closes connections without the secret of the run.
class Authenticator {
 public:
  /// Create it before a socket with guard() is bound; requests wait until they are answered.
  explicit Authenticator(zmq::context_t& context);

  /// Configures the socket that accepts connections: requires the secret, accepts messages of at
  /// most `most_bytes`, and queues at most `most_messages` per connection.
  static void guard(zmq::socket_t& incoming, int64_t most_bytes, int most_messages);
  /// Configures a socket that connects: sends the secret.
  static void introduce(zmq::socket_t& outgoing, const std::string& secret);

  /// Readable while requests are pending.
  zmq::socket_t& requests() { return requests_; }
  /// Answers pending requests, up to a limit. Never blocks.
  void answer(const std::string& secret);

 private:
  zmq::socket_t requests_;
};

}  // namespace kinema::world
