#include "kinema/serve/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "kinema/core/error.h"
#include "kinema/http/message.h"
#include "kinema/serve/engine_process.h"

namespace kinema::serve {
namespace {

using http::Refusal;
namespace fs = std::filesystem;

/// A seed that JavaScript and every other client can hold.
int64_t random_seed() {
  static thread_local std::random_device device;
  return std::uniform_int_distribution<int64_t>(0, (int64_t{1} << 31) - 1)(device);
}

[[noreturn]] void refuse_state(const JobRecord& job, const char* what) {
  throw Refusal(409, fmt::format("the job is {}, so it cannot be {}", name_of(job.state), what));
}

}  // namespace

Queue::Queue(Store& store, Catalogue& catalogue, http::EventStream& events, QueueOptions options)
    : store_(store), catalogue_(catalogue), events_(events), options_(std::move(options)) {
  recover();
  is_paused_ = store_.setting("paused") == "true";
  thread_ = std::thread([this] { run(); });
}

Queue::~Queue() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<std::string> Queue::prepare(MakeRequest& request) {
  request.model = catalogue_.model(request.model).name;
  if (request.count > options_.most_count) {
    throw Refusal(422, fmt::format("`count` is {}, at most {}", request.count, options_.most_count),
                  "count");
  }
  for (const auto& [name, id] : request.inputs) {
    if (!store_.upload(id)) {
      throw Refusal(422, fmt::format("there is no upload `{}`: send the picture again", id), name,
                    "upload_not_found");
    }
  }
  const std::vector<Lora> known = catalogue_.loras();
  for (const LoraUse& lora : request.loras) {
    if (std::ranges::find(known, lora.name, &Lora::name) == known.end()) {
      throw Refusal(422, fmt::format("there is no LoRA `{}`", lora.name), "loras");
    }
  }
  const io::Json* seed = request.settings.find("seed");
  if (seed == nullptr || seed->is_null()) {
    request.settings.set("seed", random_seed());
  }
  return catalogue_.check(request);
}

JobRecord Queue::add(MakeRequest request, const std::string& source, const std::string& client_key,
                     bool* is_new) {
  prepare(request);
  if (store_.waiting() >= options_.most_waiting) {
    Refusal full(429, fmt::format("{} jobs wait already", options_.most_waiting), "", "queue_full");
    full.headers.add("Retry-After", "5");
    throw full;
  }
  std::error_code error;
  const fs::space_info space = fs::space(store_.folder(), error);
  if (!error && space.available < static_cast<uint64_t>(options_.free_bytes)) {
    throw Refusal(507, "the disk of the outputs is nearly full", "", "disk_full");
  }
  bool added = false;
  const JobRecord out = store_.add(request, source, client_key, &added);
  if (is_new != nullptr) {
    *is_new = added;
  }
  if (added) {
    publish(out);
    changed_.notify_all();
  }
  return out;
}

JobRecord Queue::find(const std::string& id) {
  auto job = store_.job(id);
  if (!job) {
    throw Refusal(404, "there is no such job", "", "job_not_found");
  }
  return std::move(*job);
}

JobRecord Queue::cancel(const std::string& id) {
  const JobRecord job = find(id);
  if (job.has_ended()) {
    refuse_state(job, "cancelled");
  }
  {
    const std::lock_guard lock(mutex_);
    if (live_ && live_->id == id) {
      cancelled_ = id;  // the thread ends it
      changed_.notify_all();
      return job;
    }
  }
  end_job(id, JobState::CANCELLED);
  return find(id);
}

JobRecord Queue::edit(const std::string& id, MakeRequest request) {
  prepare(request);
  const JobRecord job = find(id);
  if (!store_.edit(id, request)) {
    refuse_state(job, "changed");
  }
  publish(find(id));
  return find(id);
}

JobRecord Queue::move(const std::string& id, const std::string& before) {
  const JobRecord job = find(id);
  if (!before.empty()) {
    find(before);
  }
  if (job.state != JobState::WAITING || !store_.move(id, before)) {
    refuse_state(job, "moved there");
  }
  publish(find(id));
  return find(id);
}

JobRecord Queue::retry(const std::string& id) {
  const JobRecord job = find(id);
  if (!job.has_ended()) {
    refuse_state(job, "tried again");
  }
  MakeRequest request = job.request;
  if (job.state == JobState::DONE) {
    request.settings.set("seed", random_seed());
  }
  return add(request, job.source);
}

void Queue::remove(const std::string& id) {
  const JobRecord job = find(id);
  if (!store_.remove_job(id)) {
    refuse_state(job, "removed");
  }
  events_.publish("removed", io::Json::object({{"job", id}}).dump(-1));
}

void Queue::pause(bool paused) {
  store_.set_setting("paused", paused ? "true" : "false");
  {
    const std::lock_guard lock(mutex_);
    is_paused_ = paused;
  }
  events_.publish("queue", io::Json::object({{"paused", paused}}).dump(-1));
  changed_.notify_all();
}

bool Queue::is_paused() const {
  const std::lock_guard lock(mutex_);
  return is_paused_;
}

void Queue::load(const std::string& model) {
  catalogue_.model(model);
  const std::lock_guard lock(mutex_);
  is_wanted_ = true;
  changed_.notify_all();
}

void Queue::unload() {
  const std::lock_guard lock(mutex_);
  if (live_) {
    throw Refusal(409, "the engine is working: cancel the running job first");
  }
  is_unwanted_ = true;
  changed_.notify_all();
}

std::string Queue::held() const {
  {
    const std::lock_guard lock(mutex_);
    if (!released_.empty()) {
      return released_;
    }
  }
  return options_.hold ? options_.hold() : "";
}

void Queue::without_engine(const std::string& why, const std::function<void()>& work) {
  const auto set = [this](const std::string& text) {
    const std::lock_guard lock(mutex_);
    released_ = text;
    changed_.notify_all();
  };
  set(why);
  try {
    for (bool is_there = true; is_there && !is_ending();) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::string state = engine().state;
      is_there = live() || (state != "none" && state != "ended");
    }
    work();
  } catch (...) {
    set("");
    throw;
  }
  set("");
}

EngineState Queue::engine() const {
  const std::lock_guard lock(mutex_);
  return engine_state_;
}

std::optional<LiveJob> Queue::live() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

int64_t Queue::deaths() const {
  const std::lock_guard lock(mutex_);
  return deaths_;
}

MadeTimes Queue::times() const {
  const std::lock_guard lock(mutex_);
  return times_;
}

Estimate Queue::estimate(const MakeRequest& request) const {
  const EngineState state = engine();
  return serve::estimate(store_, catalogue_.model(request.model), request,
                         state.model == request.model);
}

bool Queue::is_cancelled(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return cancelled_ == id;
}

bool Queue::is_ending() const {
  const std::lock_guard lock(mutex_);
  return is_ending_;
}

void Queue::recover() {
  store_.recover(
      options_.attempts,
      fmt::format("the engine or the server ended {} times while it made this", options_.attempts));
}

void Queue::set_engine(const std::string& state, const std::string& message) {
  io::Json json;
  {
    const std::lock_guard lock(mutex_);
    engine_state_.state = state;
    engine_state_.message = message;
    engine_state_.model = engine_ ? engine_->model : "";
    engine_state_.bytes = engine_ ? engine_state_.bytes : 0;
    json = to_json(engine_state_);
  }
  events_.publish("engine", json.dump(-1));
}

void Queue::end_job(const std::string& id, JobState state, const std::string& error) {
  store_.end(id, state, error);
  if (const auto job = store_.job(id)) {
    publish(*job);
  }
  changed_.notify_all();
}

void Queue::wait(Waiter waiter) {
  const std::lock_guard lock(mutex_);
  waiters_.push_back({.waiter = std::move(waiter)});
  changed_.notify_all();
}

}  // namespace kinema::serve
