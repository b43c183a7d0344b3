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

struct PulseOptions {
  double beat = 1;      ///< seconds between messages
  double silence = 30;  ///< a process that is not heard of for so many seconds is lost
  /// A process that stands still for so many seconds while others wait for it is stuck; what it
  /// announced as long is not judged.
  double standstill = 30;
};

/// How long a process took for a step.
struct StepTime {
  int64_t step = 0;  ///< 0: none yet
  double seconds = 0;
  double waited = 0;  ///< of them, for the others, as far as it knows
};

/// What a process was last heard to do.
struct Progress {
  int64_t step = 0;      ///< that is being made
  int64_t count = 0;     ///< of all that it began; the one with the fewest is waited for
  bool is_long = false;  ///< compiling, a checkpoint: takes the time it takes
  std::string doing;     ///< `waiting for data`
  StepTime last = {};    ///< of the last step that it finished
};

/// Knows of each process of a run that it lives and where it stands: all tell process 0, which
/// tells all. A process that ends with an error, dies, is stopped or stands still ends the others.
/// So does an error of the messages themselves, or of what `set_show` and `set_overdue` gave.
class Pulse {
 public:
  /// `names`: of the processes, `process 3 on HOST`, by rank. Called by all at the same point.
  Pulse(std::shared_ptr<Engine> engine, std::vector<std::string> names, PulseOptions options);
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;
  /// Listens no longer; for when all are done.
  ~Pulse();

  /// From now on a process that is lost has ended the run within so many seconds; what
  /// `set_overdue` needs is taken off.
  void set_timeout(double seconds);
  /// Called where this process has not ended some seconds after a failure, as it stands in
  /// something that nothing interrupts; from a thread of the pulse.
  void set_overdue(std::function<void()> end);
  /// A line that people should see, from whichever process: process 0 shows its own itself, and
  /// those that others alone have, with whose they are, by `set_show`, from a thread of the pulse.
  void notice(const std::string& text);
  void set_show(std::function<void(const std::string&)> show);
  /// Shows what came too late to be waited for whether process 0 says it too; for the end.
  void show_last() { show_notices(0); }
  /// This process has finished a step.
  void finished(const StepTime& step);
  /// This process begins something.
  void begin(int64_t step, std::string doing, bool is_long);

  /// What this process does is long, whatever it began, while the result lives: it compiles.
  [[nodiscard]] std::shared_ptr<void> at_length();

  /// Why the run cannot go on, as process 0 says it: `[process 3 on HOST] text` of its error, or
  /// that it is lost; empty while all is well.
  std::string failure() const;
  /// Tells the others that this process ends with an error. Returns in process 0 at once, in others
  /// when process 0 has said it (`said`): a launcher ends all with the first that ends. False: it
  /// did not within `seconds`, or is lost.
  bool fail(const std::string& text, double seconds);
  /// Process 0 has said what went wrong; returns when the others may know.
  void said();
  /// Every error that reached process 0, with whose it is, equal ones once, without those that
  /// only follow from another; for its last lines.
  std::vector<std::string> errors(double wait_seconds) const;

  /// Where each process stands; of process 0.
  std::vector<Progress> progress() const;

 private:
  struct Beat;
  struct Peer;
  void work();
  void exchange();
  void hear();
  void tell();
  void judge();
  void end_overdue();
  void show_notices(double patience);
  void set_failure(const std::string& text);
  Beat own_beat();
  bool own_is_long() const { return own_.is_long || lengths_.use_count() > 1; }

  std::shared_ptr<Engine> engine_;
  std::vector<std::string> names_;
  PulseOptions options_;
  int channel_;
  mutable std::mutex mutex_;  // of what follows
  Progress own_;
  Stopwatch own_advanced_;
  std::shared_ptr<void> lengths_ = std::make_shared<int>();  // held by what takes long
  Stopwatch since_failure_;
  double grace_ = 5;  // seconds
  std::function<void()> overdue_;
  std::function<void(const std::string&)> show_;
  Notices notices_;                      // of process 0
  std::deque<std::string> own_notices_;  // of others: not told yet
  int64_t notices_told_ = 0;
  std::string own_error_;
  std::string failure_;
  bool said_ = false;
  bool first_is_lost_ = false;  // nobody is there to say it
  bool is_cut_off_ = false;     // nothing can be sent or received any more
  bool has_told_ = false;
  std::string told_;  // the errors and failure of the last message
  Stopwatch since_beat_;
  Stopwatch since_turn_;
  std::vector<Peer> peers_;  // of process 0: all; of others: process 0 alone
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace kinema::world
