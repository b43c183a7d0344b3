#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kinema/http/events.h"
#include "kinema/io/json.h"
#include "kinema/serve/catalogue.h"
#include "kinema/serve/estimate.h"
#include "kinema/serve/maker.h"
#include "kinema/serve/store.h"

namespace kinema::serve {

class EngineProcess;

struct QueueOptions {
  std::vector<std::string> engine;  // the command of an engine, which speaks by descriptor 3
  int64_t most_waiting = 64;
  int64_t most_count = 16;                         // pictures of a request
  int64_t attempts = 3;                            // a job whose engine ends so often fails
  int64_t free_bytes = 1 << 30;                    // with less on the disk, nothing is accepted
  std::chrono::milliseconds stop_time{10'000};     // then an engine that does not stop is killed
  std::chrono::milliseconds restart_time{1'000};   // doubled with each death in a row, to a minute
  std::chrono::milliseconds unload_time{600'000};  // without work; 0: never
  std::chrono::milliseconds leave_time{30'000};    // a job whose last waiter left so long ago ends
  /// Why no job may start, because others have the memory: the engine ends then. Empty: none.
  std::function<std::string()> hold = {};
  double patience = 60;  // seconds that jobs of other models let one of the loaded model go first
};

/// What is known of the running job and of the engine.
struct LiveJob {
  std::string id;
  std::string phase = "loading";
  int64_t step = 0;
  int64_t steps = 0;
  std::optional<double> seconds_left;
  std::vector<std::string> notices;
  std::shared_ptr<const std::string> preview{};  // the bytes of a picture; null: none yet
  int64_t previews = 0;                          // so far
};
struct EngineState {
  std::string state = "none";  // `none`, `loading`, `ready`, `busy` or `ended`
  std::string model;
  std::string device;
  std::string message;   // why nothing runs
  std::string platform;  // of its device: `cpu`, `cuda` or `tpu`
  int64_t devices = 0;
  int64_t bytes = 0;        // of its device's memory: in use, or what the running job needs
  int64_t bytes_limit = 0;  // 0: unknown
};
io::Json to_json(const EngineState& engine);

/// Takes requests, has an engine make them one after the other, and tells all of it as events. An
/// engine that ends is started again, and its job with it. Safe to use from several threads.
class Queue {
 public:
  Queue(Store& store, Catalogue& catalogue, http::EventStream& events, QueueOptions options);
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  /// Ends the engine; the running job waits again.
  ~Queue();

  /// Checks a request and completes it: the model's name, a seed. Throws an http::Refusal of status
  /// 404 or 422. Returns log lines for the user.
  std::vector<std::string> prepare(MakeRequest& request);
  /// Adds a job. Throws a Refusal as `prepare`, 429 if too many wait, 507 if the disk is full.
  JobRecord add(MakeRequest request, const std::string& source, const std::string& client_key = {},
                bool* is_new = nullptr);
  /// Each throws a Refusal of status 404 for an unknown job, 409 where its state does not fit.
  JobRecord cancel(const std::string& id);
  JobRecord edit(const std::string& id, MakeRequest request);
  JobRecord move(const std::string& id, const std::string& before);
  JobRecord retry(const std::string& id);
  void remove(const std::string& id);
  JobRecord find(const std::string& id);

  void pause(bool paused);
  bool is_paused() const;
  /// Starts an engine, or ends one that does nothing.
  void load(const std::string& model);
  void unload();
  /// Lets the running job wait again and ends the engine, because others need its memory; returns
  /// when it has ended. While `work` runs no job starts.
  void without_engine(const std::string& why, const std::function<void()>& work);
  EngineState engine() const;
  std::optional<LiveJob> live() const;
  int64_t deaths() const;
  /// Of all requests since the start.
  MadeTimes times() const;
  /// What a prepared request would take.
  Estimate estimate(const MakeRequest& request) const;
  int64_t most_count() const { return options_.most_count; }
  int64_t most_waiting() const { return options_.most_waiting; }

  /// A job as clients see it.
  io::Json job_json(const JobRecord& job);
  /// Tells clients that a job is not what it was.
  void publish(const JobRecord& job);

  /// Somebody waits for the end of a job.
  struct Waiter {
    std::string job;
    std::chrono::steady_clock::time_point until;  // is called then too
    std::function<bool()> is_gone;                // empty: never
    std::function<void()> done;
  };
  void wait(Waiter waiter);

 private:
  struct Waiting {
    Waiter waiter;
    std::optional<std::chrono::steady_clock::time_point> gone_since;
  };

  void run();
  void run_next(std::unique_lock<std::mutex>& lock, const std::string& held);
  std::string held() const;
  void try_to_make(const JobRecord& job);
  void make(const JobRecord& job);
  bool start_engine();
  void stop_engine(const std::string& state, const std::string& message);
  void follow(const JobRecord& job);
  /// True at the end of the job.
  bool take_message(const JobRecord& job, const io::Json& message);
  void take_progress(const io::Json& message);
  void finish(const JobRecord& job, const io::Json& made);
  void measure(const JobRecord& job, const Made& made);
  void on_death(const JobRecord& job);
  void set_engine(const std::string& state, const std::string& message = {});
  void end_job(const std::string& id, JobState state, const std::string& error = {});
  /// Calls waiters whose job has ended or whose time is over, and cancels what nobody waits for.
  void tell_waiters();
  bool is_cancelled(const std::string& id) const;
  bool is_ending() const;
  /// Jobs that were running when the server or the database failed wait again.
  void recover();

  Store& store_;
  Catalogue& catalogue_;
  http::EventStream& events_;
  const QueueOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;
  bool is_paused_ = false;
  bool is_wanted_ = false;    // an engine, without a job
  bool is_unwanted_ = false;  // the idle engine
  std::string cancelled_;     // the running job, whose end is asked for
  EngineState engine_state_;
  std::optional<LiveJob> live_;
  std::chrono::steady_clock::time_point sampling_since_{};
  std::chrono::steady_clock::time_point idle_since_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point not_before_{};  // after a death
  std::string held_;                                    // why no job starts, as it was told last
  std::string released_;                                // the same, by `without_engine`
  MadeTimes times_;
  int64_t deaths_ = 0;
  int64_t deaths_in_a_row_ = 0;
  std::vector<Waiting> waiters_;

  std::unique_ptr<EngineProcess> engine_;  // of the thread only
  std::thread thread_;
};

/// An output as clients see it.
io::Json to_json(const OutputRecord& output);

}  // namespace kinema::serve
