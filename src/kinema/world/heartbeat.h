#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kinema/core/stopwatch.h"
#include "kinema/world/engine.h"
#include "kinema/world/notices.h"

namespace kinema::world {

struct HeartbeatOptions {
  double interval = 1;  ///< seconds between heartbeats
  double timeout = 30;  ///< seconds without a heartbeat after which a process is lost
  /// A process without progress for this many seconds, while others wait for it, hangs; operations
  /// that it announced as long are excluded.
  double hang_timeout = 30;
};

/// The time of a process for a step.
struct StepTime {
  int64_t step = 0;  ///< 0: none yet
  double seconds = 0;
  double waited = 0;  ///< the part in which it waited for others, as far as it knows
};

/// The progress of a process, from its last heartbeat.
struct Progress {
  int64_t step = 0;  ///< the current one
  /// Operations started so far; the others wait for the process with the fewest.
  int64_t count = 0;
  bool is_long = false;  ///< compilation, a checkpoint: may take long
  std::string doing;     ///< `waiting for data`
  StepTime last = {};    ///< of the last step that it finished
};

/// Heartbeats of the processes of a run, with their progress: all send to process 0, which sends to
/// all. A process that ends with an error, dies, is suspended or hangs ends the others. So does an
/// error of the messages themselves, or of the functions of `set_show` and `set_overdue`.
class Heartbeat {
 public:
  /// `names`: of the processes, `process 3 on HOST`, by rank. Collective.
  Heartbeat(std::shared_ptr<Engine> engine, std::vector<std::string> names,
            HeartbeatOptions options);
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  /// Stops the heartbeats; call it when all processes are done.
  ~Heartbeat();

  /// Sets the seconds from the loss of a process to the end of the run, including the wait before
  /// the function of `set_overdue`.
  void set_timeout(double seconds);
  /// `end` is called if this process has not ended some seconds after a failure, because it is in a
  /// call that cannot be interrupted; from a heartbeat thread.
  void set_overdue(std::function<void()> end);
  /// A log line of any process. Process 0 prints its own lines itself, and those of other
  /// processes, with their names, through `set_show`, from a heartbeat thread.
  void notice(const std::string& text);
  void set_show(std::function<void(const std::string&)> show);
  /// Prints lines that arrived too late to wait whether process 0 prints them too; at the end.
  void show_last() { show_notices(0); }
  /// This process has finished a step.
  void finished(const StepTime& step);
  /// This process starts an operation.
  void begin(int64_t step, std::string doing, bool is_long);

  /// While the result exists, this process is in a long operation, such as a compilation.
  [[nodiscard]] std::shared_ptr<void> long_operation();

  /// Why the run failed, as reported by process 0: `[process 3 on HOST] text` of its error, or that
  /// it is lost; empty if it has not failed.
  std::string failure() const;
  /// Reports this process's error to the others. Returns immediately in process 0, in others when
  /// process 0 has printed the error (set_printed), because a launcher kills all processes when the
  /// first one ends. Returns false if that did not happen within `seconds`, or if process 0 is
  /// lost.
  bool fail(const std::string& text, double seconds);
  /// Process 0 has printed the error; returns when the others may know.
  void set_printed();
  /// Every error that arrived at process 0, with the names of its processes, equal ones once,
  /// without errors that follow from another; for its last lines.
  std::vector<std::string> errors(double wait_seconds) const;

  /// The progress of each process; for process 0.
  std::vector<Progress> progress() const;

 private:
  struct HeartbeatMessage;
  struct Peer;
  void work();
  void exchange();
  void receive();
  void send();
  void check_timeouts();
  void end_overdue();
  void show_notices(double min_age);
  void set_failure(const std::string& text);
  HeartbeatMessage own_message();
  bool in_long_operation() const { return own_.is_long || long_operations_.use_count() > 1; }

  std::shared_ptr<Engine> engine_;
  std::vector<std::string> names_;
  HeartbeatOptions options_;
  int channel_;
  mutable std::mutex mutex_;  // guards the members below
  Progress own_;
  Stopwatch own_advanced_;
  std::shared_ptr<void> long_operations_ = std::make_shared<int>();  // held by long operations
  Stopwatch since_failure_;
  double grace_ = 5;  // seconds
  std::function<void()> overdue_;
  std::function<void(const std::string&)> show_;
  LogLines notices_;                     // of process 0
  std::deque<std::string> own_notices_;  // of others: not sent yet
  int64_t notices_sent_ = 0;
  std::string own_error_;
  std::string failure_;
  bool is_printed_ = false;
  bool lost_process_0_ = false;   // so no process can report it
  bool is_disconnected_ = false;  // nothing can be sent or received any more
  bool has_sent_ = false;
  std::string sent_errors_;  // errors and failure in the last message
  Stopwatch since_sent_;
  Stopwatch since_exchange_;
  std::vector<Peer> peers_;  // in process 0: all; in others: process 0 only
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace kinema::world
