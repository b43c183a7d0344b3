#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "kinema/core/stopwatch.h"
#include "kinema/io/descriptor.h"
#include "kinema/world/tcp_engine.h"
#include "kinema/world/tcp_hello.h"

namespace kinema::world {

/// Process 0's side of the handshake: collects the address of each process. Other programs that
/// connect to the port can use only bounded memory and work.
class Coordinator {
 public:
  explicit Coordinator(const TcpMeeting& meeting);
  /// Waits for all processes; `own` is the address where process 0 listens. An Error is thrown in
  /// all of them.
  Met gather(const std::string& own);
  /// Answers late connections, up to a limit: a process of the run that lost its connection gets
  /// its reply again, others get an error. Called periodically.
  void answer_late();

 private:
  /// An unauthenticated connection.
  struct Guest {
    io::Descriptor socket;
    std::string said;
    Stopwatch since;
    std::optional<Hello> hello;
  };

  /// Processes closed connections, received bytes and new connections.
  void look(std::chrono::milliseconds wait, size_t most_guests);
  static bool read(Guest& guest);
  /// The requests by rank. Throws an Error, also in all processes, if one is inconsistent.
  std::vector<const Hello*> members();
  void tell_all(const Answer& answer);
  [[noreturn]] void refuse(const std::string& why);

  TcpMeeting meeting_;
  io::Descriptor socket_;
  std::vector<Guest> guests_;
  Met met_;
  std::vector<std::string> tokens_;  // of the processes, by rank
};

/// The other processes' side: sends the address where this one listens to process 0.
Met meet(const TcpMeeting& meeting, const std::string& own);

}  // namespace kinema::world
