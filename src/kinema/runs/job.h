#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "kinema/world/world.h"

/// What every job of this room (training, sampling, preparing ...) tells while it goes on. It never
/// prints and takes no signal: who calls it shows what it tells and says when it is to stop.
namespace kinema::runs {

/// Something long as an observer shows it; over when the object goes.
class Task {
 public:
  virtual ~Task() = default;
  /// `done` of the total that it was begun with, and what else there is to see of it.
  virtual void update(int64_t /*done*/, const std::string& /*note*/ = {}) {}
};

/// Any of these may be empty. They are called from the threads of the job, one at a time but for
/// `update` of tasks.
struct Observer {
  /// A line that a user should see: a key without effect, a clip that is left out.
  std::function<void(const std::string& line)> on_notice;
  /// A line about the work itself: `checkpoint of step 100 saved: ...`.
  std::function<void(const std::string& line)> on_line;
  /// Something long begins: `loading the weights` with a total of 0, or `encoding clips`, whose
  /// total is told as it comes nearer.
  std::function<std::unique_ptr<Task>(const std::string& what, int64_t total)> on_task;
  /// From here on a stop is met in good order. Before it nothing is made that an end of the process
  /// would lose.
  std::function<void()> on_begin;
};

struct JobOptions {
  /// Asks the job to end in good order: with a checkpoint after this step, after this clip.
  std::stop_token stop = {};
  /// A kinema program; its `compile-job` compiles in a process of its own, for devices that are not
  /// here and to try compiler flags that are not known. Empty: flags are not tried.
  std::filesystem::path program = {};
  /// The processes that do the job together, each of which calls it with the same configuration;
  /// null: this one alone.
  std::shared_ptr<world::World> world = {};
};

/// A job while it goes on: whom it tells, and whether it is to stop. Copies are the same job; one
/// that is made of nothing tells nobody and goes on.
class Job {
 public:
  Job();
  Job(const Observer& observer, JobOptions options);

  void notice(const std::string& line) const;
  void notice(std::span<const std::string> lines) const;
  void line(const std::string& line) const;
  /// Never null. The task is over when the result goes.
  std::unique_ptr<Task> task(const std::string& what, int64_t total = 0) const;
  /// `task`, begun with the first number that is told: for what may have nothing to do.
  std::function<void(int64_t done, int64_t total)> progress(const std::string& what) const;
  void begin() const;
  /// Of several processes: of all alike, from a point on that they pass together.
  bool stop_requested() const { return options_.stop.stop_requested(); }
  const std::stop_token& stop() const { return options_.stop; }
  /// Whether this process was asked, which the others may not know yet.
  bool stop_asked() const { return asked_.stop_requested(); }
  /// Such a point: where any process was asked, the job is to stop in all. `where` is what the one
  /// who waits says that it waits for. Does nothing in one process.
  void meet(const std::string& where) const;
  /// All processes know by themselves that the job is to stop.
  void agree_to_stop() const { agreed_.request_stop(); }
  /// For jobs that leave nothing behind: throws Stopped once a stop is asked for.
  void check_stop() const;
  const std::filesystem::path& program() const { return options_.program; }
  world::World& world() const { return *options_.world; }
  const std::shared_ptr<world::World>& shared_world() const { return options_.world; }
  /// In all processes but the first, which shows what there is to see, and writes it.
  bool is_silent() const { return !world().is_first(); }

 private:
  std::shared_ptr<const Observer> observer_;
  JobOptions options_;
  std::stop_token asked_;
  mutable std::stop_source agreed_;  // shared by copies
};

}  // namespace kinema::runs
