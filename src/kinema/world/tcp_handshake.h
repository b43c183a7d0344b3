#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "kinema/core/stopwatch.h"
#include "kinema/io/descriptor.h"
#include "kinema/world/handshake_messages.h"
#include "kinema/world/tcp_engine.h"

namespace kinema::world {

/// Process 0's side of the handshake: collects the address of each process. Other programs that
/// connect to the port can use only bounded memory and work.
class Coordinator {
 public:
  explicit Coordinator(const TcpOptions& options);
  /// Waits for all processes; `own` is the address where process 0 listens. An Error is thrown in
  /// all of them.
  HandshakeResult gather(const std::string& own);
  /// Answers late connections, up to a limit: a process of the run that lost its connection gets
  /// its reply again, others get an error. Called periodically.
  void answer_late_requests();
  /// Call when all processes of the run have their reply. From then on only a process that was
  /// started by mistake comes, and few connections wait for their error: others cannot slow the
  /// run.
  void settle();

 private:
  /// An unauthenticated connection.
  struct Connection {
    io::Descriptor socket;
    std::string received;
    Stopwatch since;
    std::optional<HandshakeRequest> request;
  };

  /// Processes closed connections, received bytes and new connections.
  void look(std::chrono::milliseconds wait, size_t max_connections, int most_new);
  static bool read(Connection& connection);
  /// The requests by rank. Throws an Error, also in all processes, if one is inconsistent.
  std::vector<const HandshakeRequest*> members();
  void send_to_all(const HandshakeReply& reply);
  [[noreturn]] void refuse(const std::string& why);

  TcpOptions options_;
  io::Descriptor socket_;
  std::vector<Connection> connections_;
  HandshakeResult result_;
  std::vector<std::string> tokens_;  // of the processes, by rank
  bool settled_ = false;
};

/// The other processes' side: sends the address where this one listens to process 0.
HandshakeResult handshake(const TcpOptions& options, const std::string& own);

}  // namespace kinema::world
