#pragma once

#include <string>

#include <zmq.hpp>

namespace kinema::world {

/// Whom the connections to this process come from. ZeroMQ asks for each (ZAP, RFC 27) before it
/// reads a message of it, and closes those that do not know the secret of the run.
class Authenticator {
 public:
  /// Before a socket that asks is bound; requests wait until they are answered.
  explicit Authenticator(zmq::context_t& context);

  /// The socket that connections come to: asks for the secret, takes no message of more than
  /// `most_bytes`, and reads on only while fewer than `most_messages` of a connection wait.
  static void guard(zmq::socket_t& incoming, int64_t most_bytes, int most_messages);
  /// A socket that connects knows it.
  static void introduce(zmq::socket_t& outgoing, const std::string& secret);

  /// Readable while requests wait.
  zmq::socket_t& requests() { return requests_; }
  /// Answers those that wait, some at most. Never waits.
  void answer(const std::string& secret);

 private:
  zmq::socket_t requests_;
};

}  // namespace kinema::world
