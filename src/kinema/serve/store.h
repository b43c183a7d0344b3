#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/serve/request.h"

namespace kinema::serve {

enum class JobState : uint8_t { WAITING, RUNNING, DONE, FAILED, CANCELLED };
std::string_view name_of(JobState state);

/// A job as it is stored. Times are Unix seconds.
struct JobRecord {
  std::string id;
  JobState state = JobState::WAITING;
  double place = 0;  // waiting jobs are made in this order
  MakeRequest request;
  double made = 0;
  std::optional<double> started;
  std::optional<double> ended;
  int64_t attempts = 0;
  std::vector<std::string> notices;
  std::string error;        // empty: none
  std::string error_param;  // the field at fault; empty: none
  std::string source;       // the API that it came by: `page`, `openai`, `a1111`, `mcp`

  bool has_ended() const { return state >= JobState::DONE; }
};

/// A picture or video that was made.
struct OutputRecord {
  std::string id;
  std::string job;  // its id; the job may be gone
  std::filesystem::path path;
  std::filesystem::path thumb;
  bool is_video = false;
  int64_t width = 0;
  int64_t height = 0;
  int64_t frames = 1;
  double seconds = 0;
  int64_t bytes = 0;
  std::string model;
  std::string prompt;
  int64_t seed = 0;
  int64_t index = 0;  // its noise is a function of seed and index
  bool starred = false;
  std::optional<double> deleted;  // when it was put into the bin
  double made = 0;
  MakeRequest request;
};

/// A picture that a client sent; its id is the SHA-256 of its bytes.
struct UploadRecord {
  std::string id;
  std::filesystem::path path;
  std::string type;
  int64_t width = 0;
  int64_t height = 0;
  int64_t frames = 1;
};

/// Which outputs are listed, newest first.
struct OutputQuery {
  std::string words;  // the prompt has all of them, in any case
  std::string model;
  std::string kind;  // `image`, `video` or empty
  bool starred = false;
  bool deleted = false;  // those in the bin, instead of all others
  int64_t offset = 0;
  int64_t limit = 60;
};
struct OutputPage {
  int64_t total = 0;
  std::vector<OutputRecord> outputs;
};

/// Jobs by state, and times of the done ones.
struct JobCounts {
  int64_t waiting = 0;
  int64_t running = 0;
  int64_t done = 0;
  int64_t failed = 0;
  int64_t cancelled = 0;
  double seconds = 0;       // of making
  double wait_seconds = 0;  // before
};

/// How long requests of a shape took with a model, the last time.
struct Measurement {
  std::string shape;         // what makes steps equally long, shape_of
  double cells = 0;          // pixels of all frames, to compare shapes
  double step_seconds = 0;   // a step of one picture or video
  double other_seconds = 0;  // text, images and decoding, of one
  double setup_seconds = 0;  // loading and compiling, where that was needed
  int64_t bytes = 0;         // of memory; 0: unknown
};

/// Jobs, outputs, uploads and settings in `FOLDER/serve.db`. What a call has stored when it returns
/// survives the end of the process and of the machine. Safe to use from several threads.
class Store {
 public:
  /// Throws an Error if the folder cannot be used, another server uses it, or the database is of a
  /// newer version.
  explicit Store(const std::filesystem::path& folder);
  ~Store();
  const std::filesystem::path& folder() const { return folder_; }

  // ---- Jobs ---------------------------------------------------------------------------------
  /// Adds a waiting job behind all others. With a `client_key` that is known, nothing is added and
  /// the result is that job; `is_new` says which.
  JobRecord add(const MakeRequest& request, const std::string& source,
                const std::string& client_key, bool* is_new = nullptr);
  std::optional<JobRecord> job(const std::string& id);
  /// The newest job made after `since` whose client_key begins with `prefix`.
  std::optional<JobRecord> newest_with_key(const std::string& prefix, double since);
  /// Running and waiting ones by place, then the newest `ended` others.
  std::vector<JobRecord> current_jobs(int64_t ended);
  /// Ended and other jobs, newest first, made before job `before` (empty: the newest).
  std::vector<JobRecord> jobs_before(const std::string& before, int64_t limit);
  int64_t waiting();
  JobCounts counts();
  /// The first waiting job by place; the first of `model`, which is loaded, unless a job of another
  /// one has waited for `patience` seconds: loading a model takes longer than most jobs.
  std::optional<JobRecord> next(const std::string& model, double patience);

  /// waiting -> running, counts the attempt. False if it is not waiting any more.
  bool start(const std::string& id);
  /// running -> waiting; `counts`: the attempt stays counted.
  void put_back(const std::string& id, bool counts);
  /// running -> done, with its outputs, in one transaction.
  void finish(const std::string& id, const std::vector<OutputRecord>& outputs,
              const std::vector<std::string>& notices);
  /// To FAILED or CANCELLED, unless it has ended. False if it had.
  bool end(const std::string& id, JobState state, const std::string& error = {},
           const std::string& param = {});
  /// While it waits; false otherwise.
  bool edit(const std::string& id, const MakeRequest& request);
  /// Before another waiting job; empty: to the end. False if one of them does not wait.
  bool move(const std::string& id, const std::string& before);
  /// If it has ended; its outputs stay. False otherwise.
  bool remove_job(const std::string& id);
  /// At the start: jobs that were running wait again, those tried `attempts` times fail with
  /// `error`.
  void recover(int64_t attempts, const std::string& error);

  // ---- Outputs ------------------------------------------------------------------------------
  std::optional<OutputRecord> output(const std::string& id);
  std::vector<OutputRecord> outputs_of(const std::string& job);
  OutputPage outputs(const OutputQuery& query);
  void star(const std::string& id, bool starred);
  void set_deleted(const std::string& id, const std::optional<double>& when);
  /// Forgets it; its files are the caller's.
  void forget_output(const std::string& id);
  /// Of the pictures and videos in the bin, or of all others.
  int64_t bytes_of_outputs(bool deleted);

  // ---- Uploads and settings -----------------------------------------------------------------
  void add_upload(const UploadRecord& upload);
  std::optional<UploadRecord> upload(const std::string& id);
  /// Uploads that no waiting or running job uses and that were last used before `time`; they are
  /// forgotten.
  std::vector<UploadRecord> take_unused_uploads(double time);
  std::string setting(const std::string& key);  // empty: not set
  void set_setting(const std::string& key, const std::string& value);
  /// Replaces what was measured of the shape.
  void measured(const std::string& model, const Measurement& measured);
  /// Newest first.
  std::vector<Measurement> measurements(const std::string& model);

 private:
  struct State;
  std::filesystem::path folder_;
  std::mutex mutex_;
  std::unique_ptr<State> state_;
};

/// Unix seconds.
double now();

}  // namespace kinema::serve
