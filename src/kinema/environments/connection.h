#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "kinema/core/error.h"
#include "kinema/io/descriptor.h"

namespace kinema::environments {

using Deadline = std::chrono::steady_clock::time_point;

/// The deadline in so many seconds; a year at most.
Deadline deadline_in(double seconds);

/// A server of environments that ended, does not answer, or cannot be reached: it may be started
/// again.
class ServerLost : public Error {
 public:
  using Error::Error;
};

/// Bytes to and from a server, over a socket. While it waits, it reads what the server prints.
class Connection {
 public:
  /// `printed` is the reading end of the server's standard output, or empty; its text is appended
  /// to the file `output` unless that is empty. Throws an Error if the file cannot be opened.
  Connection(io::Descriptor socket, io::Descriptor printed, const std::string& output);

  // These throw ServerLost when the other side has ended, and at the deadline.
  void send(std::span<const std::byte> bytes, Deadline deadline);
  void receive(std::span<std::byte> bytes, Deadline deadline);
  /// The text up to the next line end. Throws an Error for a line of more than 1 MiB.
  std::string line(Deadline deadline);

  /// The last line that the server printed; empty if there is none.
  std::string last_printed();

 private:
  /// Waits until the socket is ready for `events`.
  void wait(short events, Deadline deadline);
  void read_printed();

  io::Descriptor socket_;
  io::Descriptor printed_;
  io::Descriptor output_;
  std::string tail_;  // the end of what was printed
  std::string rest_;  // received after a line
};

/// Connects to HOST:PORT. Throws ServerLost where nothing answers, an Error for another text.
io::Descriptor connect_to_server(const std::string& address, Deadline deadline);

}  // namespace kinema::environments
