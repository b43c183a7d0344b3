// The queue's thread: it starts engines, gives them jobs and takes what they send.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/http/gate.h"
#include "kinema/io/folder.h"
#include "kinema/serve/engine_process.h"
#include "kinema/serve/maker.h"
#include "kinema/serve/queue.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kTick = std::chrono::milliseconds(200);

}  // namespace

void Queue::run() {
  std::unique_lock lock(mutex_);
  bool has_failed = false;
  while (!is_ending_) {
    lock.unlock();
    try {
      if (std::exchange(has_failed, false)) {
        recover();
      }
      tell_waiters();
      const std::string held = this->held();
      lock.lock();
      run_next(lock, held);
    } catch (const std::exception& error) {
      // The database or the disk: told, and tried again after a while.
      if (lock.owns_lock()) {
        lock.unlock();
      }
      has_failed = true;
      engine_.reset();
      set_engine("none", error.what());
      lock.lock();
      live_.reset();
      not_before_ = Clock::now() + std::chrono::seconds(5);
      changed_.wait_for(lock, std::chrono::seconds(1), [&] { return is_ending_; });
    }
  }
  lock.unlock();
  engine_.reset();
}

/// One job, a change of the engine, or a pause. Called with the lock, and returns with it. `held`:
/// why no job may start.
void Queue::run_next(std::unique_lock<std::mutex>& lock, const std::string& held) {
  const bool is_told = std::exchange(held_, held) == held;
  const bool can_start = !is_paused_ && held.empty() && Clock::now() >= not_before_;
  const bool is_idle_long = engine_ && options_.unload_time.count() > 0 &&
                            Clock::now() - idle_since_ > options_.unload_time;
  const bool ends_engine = std::exchange(is_unwanted_, false) || is_idle_long || !held.empty();
  const bool starts_engine = std::exchange(is_wanted_, false) && held.empty();
  const std::string model = engine_ ? engine_->model : "";
  lock.unlock();
  if (engine_ && ends_engine) {
    stop_engine("none", held);
  } else if (!is_told) {
    set_engine(engine_ ? "ready" : "none", held);
  }
  if (starts_engine) {
    start_engine();
  }
  if (engine_ && engine_->child().ended()) {
    stop_engine("ended", "the engine ended by itself: " + *engine_->child().ended());
  }
  if (const auto job = can_start ? store_.next(model, options_.patience) : std::nullopt) {
    lock.lock();
    if (is_paused_ || is_ending_) {  // since the queue was asked
      return;
    }
    live_ = LiveJob{.id = job->id};  // from here on, `cancel` leaves its end to this thread
    cancelled_.clear();
    lock.unlock();
    const bool is_started = store_.start(job->id);
    if (is_started) {
      try_to_make(find(job->id));
    }
    lock.lock();
    live_.reset();
    idle_since_ = Clock::now();
    if (is_started) {
      return;
    }
  } else {
    lock.lock();
  }
  if (!is_ending_ && !is_wanted_ && !is_unwanted_) {
    changed_.wait_for(lock, kTick);
  }
}

bool Queue::start_engine() {
  if (engine_) {
    return true;
  }
  set_engine("loading");
  engine_ = std::make_unique<EngineProcess>(options_.engine, store_.folder() / "engine.log");
  std::optional<io::Json> ready;
  for (const auto until = Clock::now() + std::chrono::minutes(5);
       !ready && !engine_->channel().is_ended() && Clock::now() < until && !is_ending();) {
    ready = engine_->channel().receive(kTick);
  }
  const io::Json* device = ready && ready->is_object() ? ready->find("ready") : nullptr;
  if (device == nullptr || !device->is_string()) {
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    engine_state_.device = device->as_string();
  }
  set_engine("ready");
  return true;
}

void Queue::stop_engine(const std::string& state, const std::string& message) {
  engine_.reset();
  set_engine(state, message);
}

/// Makes a job that was started; it fails with what is thrown.
void Queue::try_to_make(const JobRecord& job) {
  try {
    publish(job);
    make(job);
  } catch (const std::exception& error) {
    engine_.reset();
    end_job(job.id, JobState::FAILED, error.what());
    set_engine("none");
  }
}

/// Has the engine make a job, and stores what comes of it.
void Queue::make(const JobRecord& job) {
  const Model model = catalogue_.model(job.request.model);
  MakeSettings settings{.model = model.name,
                        .arguments = model.arguments,
                        .settings = job.request.settings,
                        .count = job.request.count,
                        .folder = fs::absolute(store_.folder() / "outputs" / job.id)};
  for (const auto& [name, id] : job.request.inputs) {
    if (const auto upload = store_.upload(id)) {
      settings.inputs.emplace(name, upload->path);
    }
  }
  const std::vector<Lora> loras = catalogue_.loras();
  for (const LoraUse& use : job.request.loras) {
    const auto found = std::ranges::find(loras, use.name, &Lora::name);
    if (found != loras.end()) {
      settings.loras.emplace_back(found->path, use.scale);
    }
  }
  fs::remove_all(settings.folder);  // of an attempt that ended
  io::make_folder(settings.folder);
  if (!start_engine()) {
    if (!is_ending()) {
      return on_death(job);
    }
    return store_.put_back(job.id, /*counts=*/false);
  }
  engine_->model = model.name;
  set_engine("busy");
  if (!engine_->channel().send(io::Json::object({{"make", to_json(settings)}}))) {
    return on_death(job);
  }
  follow(job);
}

/// Takes the engine's messages until the job has ended.
void Queue::follow(const JobRecord& job) {
  std::optional<Clock::time_point> asked_to_stop;
  while (true) {
    const auto message = engine_->channel().receive(kTick);
    if (message && take_message(job, *message)) {
      break;
    }
    if (engine_->channel().is_ended()) {
      return on_death(job);
    }
    tell_waiters();
    if (!asked_to_stop && (is_cancelled(job.id) || is_ending() || !held().empty())) {
      asked_to_stop = Clock::now();
      engine_->channel().send(io::Json::object({{"stop", true}}));
    }
    if (asked_to_stop && Clock::now() - *asked_to_stop > options_.stop_time) {
      stop_engine("none", "");  // a compiler cannot be stopped otherwise
      if (is_cancelled(job.id)) {
        end_job(job.id, JobState::CANCELLED);
      } else {
        store_.put_back(job.id, /*counts=*/false);
      }
      break;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    live_.reset();
    deaths_in_a_row_ = 0;
  }
  if (engine_) {
    set_engine("ready");
  }
  publish(find(job.id));
}

bool Queue::take_message(const JobRecord& job, const io::Json& message) {
  const auto text = [&](const char* name) { return message.find(name); };
  if (const io::Json* made = text("made")) {
    finish(job, *made);
    return true;
  }
  if (const io::Json* failed = text("failed")) {
    store_.end(job.id, JobState::FAILED, failed->as_string());
    return true;
  }
  if (text("stopped") != nullptr) {
    if (is_cancelled(job.id)) {
      store_.end(job.id, JobState::CANCELLED);
    } else {
      store_.put_back(job.id, /*counts=*/false);
    }
    return true;
  }
  take_progress(message);
  publish(find(job.id));
  return false;
}

/// Anything but the end of a job.
void Queue::take_progress(const io::Json& message) {
  const std::lock_guard lock(mutex_);
  if (!live_) {
    return;
  }
  if (const io::Json* phase = message.find("phase")) {
    live_->phase = phase->as_string();
  } else if (const io::Json* notice = message.find("notice")) {
    live_->notices.push_back(notice->as_string());
  } else if (const io::Json* bytes = message.find("memory")) {
    engine_state_.bytes = bytes->as_int();
  } else if (const io::Json* picture = message.find("preview")) {
    if (auto decoded = http::base64_decoded(picture->as_string())) {
      live_->preview = std::make_shared<const std::string>(std::move(*decoded));
      ++live_->previews;
    }
  } else if (const io::Json* step = message.find("step")) {
    live_->step = step->as_int();
    live_->steps = message.at("steps").as_int();
    if (live_->phase != "sampling") {
      live_->phase = "sampling";
      sampling_since_ = Clock::now();
    } else if (live_->step > 1) {
      const double each = std::chrono::duration<double>(Clock::now() - sampling_since_).count() /
                          static_cast<double>(live_->step - 1);
      live_->seconds_left = each * static_cast<double>(live_->steps - live_->step);
    }
  }
}

void Queue::tell_waiters() {
  std::vector<Waiter> done;
  std::vector<std::string> left;
  std::vector<Waiting> open;
  {
    const std::lock_guard lock(mutex_);
    open.swap(waiters_);
  }
  const auto time = Clock::now();
  std::erase_if(open, [&](Waiting& each) {
    const auto job = store_.job(each.waiter.job);
    if (!job || job->has_ended() || time >= each.waiter.until) {
      done.push_back(std::move(each.waiter));
      return true;
    }
    if (each.waiter.is_gone && each.waiter.is_gone() && !each.gone_since) {
      each.gone_since = time;
    }
    return false;
  });
  for (const Waiting& each : open) {
    const bool all_left = std::ranges::all_of(open, [&](const Waiting& other) {
      return other.waiter.job != each.waiter.job ||
             (other.gone_since && time - *other.gone_since > options_.leave_time);
    });
    if (all_left) {
      left.push_back(each.waiter.job);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    for (Waiting& each : open) {
      waiters_.push_back(std::move(each));
    }
  }
  for (const std::string& id : left) {
    if (const auto job = store_.job(id); job && !job->has_ended()) {
      cancel(id);
    }
  }
  for (const Waiter& waiter : done) {
    waiter.done();
  }
}

}  // namespace kinema::serve
