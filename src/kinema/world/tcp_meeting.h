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

/// The list of who is where, kept by process 0 at the coordinator's address. Whoever else speaks to
/// the port takes it bounded memory and work.
class Coordinator {
 public:
  explicit Coordinator(const TcpMeeting& meeting);
  /// Waits for the others; `own` is where process 0 listens. Throws in all of them what it throws.
  Met gather(const std::string& own);
  /// Answers those that come when all are there, some at most: one of the run whose connection was
  /// cut before it had its answer has it again, another one is told. Called now and then.
  void answer_late();

 private:
  /// A connection.
  struct Guest {
    io::Descriptor socket;
    std::string said;
    Stopwatch since;
    std::optional<Hello> hello;
  };

  /// Takes in what has come: who has gone, what those that are here say, who is new.
  void look(std::chrono::milliseconds wait, size_t most_guests);
  static bool read(Guest& guest);
  /// By rank, those that have said hello. Throws, and tells all, what is wrong with one.
  std::vector<const Hello*> members();
  void tell_all(const Answer& answer);
  [[noreturn]] void refuse(const std::string& why);

  TcpMeeting meeting_;
  io::Descriptor socket_;
  std::vector<Guest> guests_;
  Met met_;
  std::vector<std::string> tokens_;  // of the processes, by rank
};

/// The same of the others: tells process 0 where this one listens.
Met meet(const TcpMeeting& meeting, const std::string& own);

}  // namespace kinema::world
