#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>

#include "kinema/world/world.h"

/// The interface by which every job (training, sampling, preparing ...) reports and can be stopped.
/// A job never prints and installs no signal handler: its caller shows the reports and requests the
/// stop.
namespace kinema {

/// Progress handle of a long operation, which ends when the handle is destroyed.
class Task {
 public:
  virtual ~Task() = default;
  /// `done` of the total that the task started with; `note`: additional text.
  virtual void update(int64_t /*done*/, const std::string& /*note*/ = {}) {}
};

/// Callbacks of a job; any of them may be empty. They are called from the job's threads, one at a
/// time except `update` of tasks.
struct Observer {
  /// A log line that a user should see: a key without effect, a clip that is skipped.
  std::function<void(const std::string& line)> on_notice;
  /// A log line about the work: `checkpoint of step 100 saved: ...`.
  std::function<void(const std::string& line)> on_line;
  /// A long operation starts: `loading the weights` with a total of 0 (unknown), or `encoding
  /// clips` with a total.
  std::function<std::unique_ptr<Task>(const std::string& what, int64_t total)> on_task;
  /// After this call, stop requests are graceful. Before it, killing the process loses nothing.
  std::function<void()> on_begin;
};

struct JobOptions {
  /// Requests a graceful stop: with a checkpoint after the current step, after the current clip.
  std::stop_token stop = {};
  /// Path of a kinema program, whose `compile-job` compiles in a child process: for devices that
  /// are not installed, and to test unknown compiler flags. Empty: flags are not tested.
  std::filesystem::path program = {};
  /// The processes that run the job together, each with the same configuration; null: one process.
  std::shared_ptr<world::World> world = {};
};

/// A running job: its observer and its stop token. Copies share both. The default has no observer
/// and is never stopped.
class Job {
 public:
  Job();
  Job(const Observer& observer, JobOptions options);

  /// Calls one of the observer's callbacks, if it is set, while no other of them runs.
  template <typename... Values>
  void tell(const std::function<void(Values...)>& callback,
            const std::type_identity_t<std::decay_t<Values>>&... values) const {
    if (callback) {
      const std::lock_guard lock(*one_call_);
      callback(values...);
    }
  }
  void notice(const std::string& line) const;
  void notice(std::span<const std::string> lines) const;
  void line(const std::string& line) const;
  /// Never null. The task ends with the result.
  std::unique_ptr<Task> task(const std::string& what, int64_t total = 0) const;
  /// A `task` that starts with the first update, for work that may not be necessary.
  std::function<void(int64_t done, int64_t total)> progress(const std::string& what) const;
  void begin() const;
  /// With several processes: equal in all of them after the next barrier.
  bool stop_requested() const { return options_.stop.stop_requested(); }
  const std::stop_token& stop() const { return options_.stop; }
  /// True if this process was asked to stop; the others may not know it yet.
  bool local_stop_requested() const { return asked_.stop_requested(); }
  /// Collective barrier that also agrees on stopping: if any process was asked to stop,
  /// stop_requested is true in all of them afterwards. `where` names the barrier in messages about
  /// waiting. Does nothing in one process.
  void barrier(const std::string& where) const;
  /// Sets stop_requested after all processes agreed to stop by other means.
  void set_agreed_stop() const { agreed_.request_stop(); }
  /// For jobs that leave no files behind: throws Stopped if a stop is requested.
  void check_stop() const;
  const std::filesystem::path& program() const { return options_.program; }
  world::World& world() const { return *options_.world; }
  const std::shared_ptr<world::World>& shared_world() const { return options_.world; }
  /// True in all processes except the first, which shows and writes everything.
  bool is_not_first() const { return !world().is_first(); }

 private:
  std::shared_ptr<const Observer> observer_;
  // Recursive, because a callback may request the stop, and what is then called may say so.
  std::shared_ptr<std::recursive_mutex> one_call_ = std::make_shared<std::recursive_mutex>();
  JobOptions options_;
  std::stop_token asked_;
  mutable std::stop_source agreed_;  // shared by copies
};

}  // namespace kinema
