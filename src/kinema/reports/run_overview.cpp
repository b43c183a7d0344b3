#include "kinema/reports/run_overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/checkpoints/run_lock.h"
#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/reports/process_times.h"
#include "kinema/resolve/run_keys.h"

namespace kinema::reports {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kConfig = "config.yml";

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / kMetrics, ignored) || fs::exists(folder / kConfig, ignored);
}

/// The names of the runs in a folder, the newest first.
std::vector<std::string> runs_in(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_run(entry->path())) {
      std::error_code ignored;
      const fs::path metrics = entry->path() / kMetrics;
      found.emplace_back(
          fs::last_write_time(fs::exists(metrics, ignored) ? metrics : entry->path(), ignored),
          entry->path().filename().string());
    }
  }
  std::ranges::sort(found, std::ranges::greater());
  std::vector<std::string> out;
  for (auto& [when, name] : found) {
    out.push_back(std::move(name));
  }
  return out;
}

void check_no_folder_of_runs(const fs::path& folder) {
  const std::vector<std::string> runs =
      is_run(folder) ? std::vector<std::string>() : runs_in(folder);
  if (runs.empty()) {
    return;
  }
  constexpr size_t kShown = 8;
  const auto shown = runs.begin() + static_cast<ptrdiff_t>(std::min(runs.size(), kShown));
  fail(
      "[run] {} is not a run, but contains {}: {}{}\n"
      "  give one of them, e.g. {}",
      folder.string(), counted(std::ssize(runs), "run"), fmt::join(runs.begin(), shown, ", "),
      runs.size() > kShown ? ", ..." : "", (folder / runs.front()).string());
}

}  // namespace

RunFiles::RunFiles(fs::path folder) : run(std::move(folder)) {
  std::error_code ignored;
  check(fs::is_directory(run, ignored),
        "[run] {} is not a run folder\n"
        "  it is output_dir/run_name of the run's configuration",
        run.string());
  check_no_folder_of_runs(run);
  metrics = run / kMetrics;
  checkpoints = run / "checkpoints";
  const fs::path config = run / kConfig;
  const bool is_run = fs::exists(config, ignored) || fs::exists(metrics, ignored) ||
                      fs::exists(checkpoints, ignored) || checkpoints::is_training(run);
  check(is_run || fs::is_empty(run, ignored),
        "[run] {} is not a run folder: it has neither config.yml nor metrics.jsonl\n"
        "  a run folder is output_dir/run_name of the run's configuration",
        run.string());
  if (fs::exists(config, ignored)) {
    const resolve::RunKeys keys = resolve::read_run_keys(config);
    max_steps = keys.max_steps;
    metrics = keys.metrics.empty() ? metrics : keys.metrics;
    checkpoints = keys.checkpoints.empty() ? checkpoints : keys.checkpoints;
  }
}

RunOverview::State RunOverview::state() const {
  const bool is_done = files.max_steps > 0 && steps() >= files.max_steps;
  return is_done ? State::DONE : is_running ? State::RUNNING : State::STOPPED;
}

std::vector<double> RunOverview::column(double metrics::MetricsRow::*which) const {
  std::vector<double> out;
  for (const metrics::MetricsRow& row : rows) {
    out.push_back(row.*which);
  }
  return out;
}

double RunOverview::recent_mean(double metrics::MetricsRow::*which) const {
  const std::vector<double> all = column(which);
  const std::vector<double> recent =
      finite({all.end() - static_cast<ptrdiff_t>(std::min(all.size(), kRecent)), all.end()});
  double sum = 0;
  for (const double value : recent) {
    sum += value;
  }
  return recent.empty() ? std::numeric_limits<double>::quiet_NaN()
                        : sum / static_cast<double>(recent.size());
}

std::string RunOverview::slowest_process() const {
  std::vector<std::vector<double>> recent;
  for (size_t i = rows.size() - std::min(rows.size(), kRecent); i < rows.size(); ++i) {
    recent.push_back(rows[i].process_seconds);
  }
  return reports::slowest_process(recent);
}

io::Json RunOverview::json() const {
  const metrics::MetricsRow& last = rows.back();
  io::Json saved = io::Json::array();
  for (const int64_t step : checkpoints::CheckpointFolder(files.checkpoints).steps()) {
    saved.append(step);
  }
  io::Json seconds = io::Json::array();
  for (const double each : last.process_seconds) {
    seconds.append(each);
  }
  return io::Json::object({{"run_folder", files.run.string()},
                           {"steps", steps()},
                           {"max_train_steps", files.max_steps},
                           {"done", state() == State::DONE},
                           {"stopped", state() == State::STOPPED},
                           {"time", last.time},
                           {"epoch", last.epoch},
                           {"loss", last.loss},
                           {"recent_loss", recent_loss()},
                           {"gradient_norm", last.gradient_norm},
                           {"learning_rate", last.learning_rate},
                           {"step_time_seconds", recent_seconds()},
                           {"process_seconds", std::move(seconds)},
                           {"tflops_per_device_per_sec", last.tflops_per_second},
                           {"checkpoints", std::move(saved)}});
}

std::vector<double> finite(std::vector<double> values) {
  std::erase_if(values, [](double x) { return !std::isfinite(x); });
  return values;
}

}  // namespace kinema::reports
