#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kinema/environments/connection.h"
#include "kinema/environments/group.h"
#include "kinema/environments/python_process.h"
#include "kinema/environments/record_layout.h"

namespace kinema::environments {

/// Which environments a server has.
struct Served {
  int64_t first = 0;  // within the group
  int64_t count = 1;
};

/// Some environments of a group in one process that runs envs.py: of this host, with a record of
/// each step in shared memory; or of another host, with the same bytes over TCP.
class EnvironmentServer {
 public:
  /// Starts it. `restarts` counts earlier processes of the same environments, whose randomness
  /// depends on it. Throws ServerLost if it ends or does not answer, else an Error.
  EnvironmentServer(const GroupOptions& options, const Served& served, int64_t restarts,
                    double start_seconds);
  ~EnvironmentServer();
  EnvironmentServer(const EnvironmentServer&) = delete;
  EnvironmentServer& operator=(const EnvironmentServer&) = delete;

  const ServedSpaces& spaces() const { return spaces_; }

  // One step, of arrays [n, ...] of the whole group. These throw ServerLost, or an Error that
  // cannot be helped by starting it again.
  void begin(const Arrays& actions, std::span<const uint8_t> reset);
  void end(GroupSteps& out);

 private:
  class Memory;

  void open_connection(Deadline deadline);
  void present_token(Deadline deadline);
  void describe(int64_t restarts, Deadline deadline);
  io::Json reply(Deadline deadline);
  /// The error that a server sent, as that of an environment of the group.
  [[noreturn]] void fail_as_told(const io::Json& reply) const;
  /// Adds how the process ended and what it printed last.
  [[noreturn]] void fail_lost(const ServerLost& error);
  std::span<std::byte> part(int64_t offset, int64_t bytes) const;

  GroupOptions options_;
  Served served_;
  Deadline deadline_;  // of the step that began
  std::unique_ptr<Memory> memory_;
  std::optional<PythonProcess> process_;  // of this host
  std::optional<Connection> connection_;  // ends before the process does
  ServedSpaces spaces_;
  std::optional<RecordLayout> layout_;
};

}  // namespace kinema::environments
