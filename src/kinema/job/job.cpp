#include "kinema/job/job.h"

#include <utility>

#include "kinema/core/error.h"

namespace kinema {

Job::Job() : Job(Observer(), {}) {}

Job::Job(const Observer& observer, JobOptions options)
    : observer_(std::make_shared<const Observer>(observer)),
      options_(std::move(options)),
      asked_(options_.stop) {
  if (!options_.world) {
    options_.world = std::make_shared<world::World>();
  }
  if (!world().is_alone()) {
    options_.stop = agreed_.get_token();
  }
}

void Job::barrier(const std::string& where) const {
  if (world().is_alone()) {
    return;
  }
  constexpr double kLong = 30 * 24 * 3600;  // seconds; a lost process ends the wait earlier
  for (const std::string& each : world().communicator().gather(local_stop_requested() ? "stop" : "",
                                                               {.what = where, .seconds = kLong})) {
    if (!each.empty()) {
      set_agreed_stop();
    }
  }
}

void Job::notice(const std::string& line) const {
  if (world::Heartbeat* const heartbeat = world().heartbeat()) {
    heartbeat->notice(line);
  }
  if (observer_) {
    tell(observer_->on_notice, line);
  }
}

void Job::notice(std::span<const std::string> lines) const {
  for (const std::string& line : lines) {
    notice(line);
  }
}

void Job::line(const std::string& line) const {
  if (observer_) {
    tell(observer_->on_line, line);
  }
}

std::unique_ptr<Task> Job::task(const std::string& what, int64_t total) const {
  std::unique_ptr<Task> out;
  if (observer_ && observer_->on_task) {
    const std::lock_guard lock(*one_call_);
    out = observer_->on_task(what, total);
  }
  return out ? std::move(out) : std::make_unique<Task>();
}

std::function<void(int64_t, int64_t)> Job::progress(const std::string& what) const {
  // Shared, because std::function requires a copyable callable.
  return [job = *this, what, task = std::shared_ptr<Task>()](int64_t done, int64_t total) mutable {
    if (!task) {
      task = job.task(what, total);
    }
    task->update(done);
  };
}

void Job::check_stop() const {
  if (stop_requested()) {
    throw Stopped();
  }
}

void Job::begin() const {
  if (observer_) {
    tell(observer_->on_begin);
  }
}

}  // namespace kinema
