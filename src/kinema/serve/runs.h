#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kinema/http/events.h"
#include "kinema/io/json.h"
#include "kinema/metrics/metrics_reader.h"

namespace kinema::serve {

struct RunsOptions {
  std::filesystem::path folder;      // of the runs, each a folder
  std::vector<std::string> command;  // that trains; gets CONFIG.yml run_name=... output_dir=...
  std::chrono::milliseconds poll{1000};
};

/// Training runs as processes of their own, in sessions of their own: they go on when the server
/// ends or is killed, and the next one finds them by the locks of their folders. Safe to use from
/// several threads.
class Runs {
 public:
  Runs(RunsOptions options, http::EventStream& events);
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;
  /// Leaves the runs alone.
  ~Runs();

  /// Each throws an http::Refusal: 404 for an unknown run, 409 where its state does not fit, 422
  /// for a name that is not 1 to 64 letters, digits, dots, underscores and hyphens.
  io::Json list();
  io::Json run(const std::string& name);
  /// The run with its configuration (YAML).
  io::Json details(const std::string& name);
  void create(const std::string& name, const std::string& config);
  void start(const std::string& name);
  /// It saves a checkpoint and ends.
  void stop(const std::string& name);
  /// Asks a running run for a checkpoint (`save`) or for samples (`sample`), by a file that it
  /// looks for (jobs::RunRequests).
  void ask(const std::string& name, const std::string& what);
  /// The names of runs that are running.
  std::vector<std::string> running();
  void remove(const std::string& name);
  /// Steps after `after`, in at most `buckets` buckets.
  io::Json metrics(const std::string& name, int64_t after, int64_t buckets);
  io::Json samples(const std::string& name);
  /// A file of `samples`, by names that are compared with the listing.
  std::filesystem::path sample_file(const std::string& name, const std::string& step,
                                    const std::string& file);
  /// At most 64 KiB from byte `after`; without it, the end.
  io::Json log(const std::string& name, std::optional<int64_t> after);

 private:
  struct Run {
    explicit Run(const std::filesystem::path& metrics) : reader(metrics) {}
    metrics::MetricsReader reader;
    std::string told;                      // the last event
    int64_t told_step = -1;                // of the last points
    std::set<std::string> told_samples{};  // of the newest step with samples, by their addresses
    int64_t told_sample_step = -1;
    pid_t child = 0;    // started by this server and not ended yet
    std::string error;  // how it ended, if that was no success
    double started = 0;
    bool is_stopping = false;
  };

  std::filesystem::path run_folder(const std::string& name) const;
  std::filesystem::path config_file(const std::string& name) const;
  std::filesystem::path log_file(const std::string& name) const;
  std::vector<std::string> names() const;
  /// With the lock.
  Run& find(const std::string& name);
  io::Json json(const std::string& name, Run& run);
  void poll();
  void tell_samples(const std::string& name, Run& run, bool is_first);
  void reap(const std::string& name, Run& run);

  RunsOptions options_;
  http::EventStream& events_;
  std::mutex mutex_;
  std::map<std::string, Run> runs_;
  std::jthread thread_;
};

/// The rows after `after` in at most `buckets` buckets: the last step of each, the means of finite
/// values, the lowest and highest loss.
io::Json metrics_json(const metrics::MetricsReader& reader, int64_t after, int64_t buckets);

/// The samples in a run's folder from step `first` on, by step, then index.
io::Json samples_json(const std::string& name, const std::filesystem::path& run, int64_t first);

}  // namespace kinema::serve
