#include "kinema/runs/run_overview.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "kinema/config/config.h"
#include "kinema/core/error.h"
#include "kinema/runs/process_times.h"
#include "kinema/training/checkpoint_folder.h"

namespace kinema::runs {

namespace fs = std::filesystem;

RunFiles::RunFiles(fs::path folder) : run(std::move(folder)) {
  std::error_code ignored;
  check(fs::is_directory(run, ignored),
        "[watch] {} is no run folder\n  it is output_dir/run_name of the run's configuration",
        run.string());
  metrics = run / "metrics.jsonl";
  checkpoints = run / "checkpoints";
  const fs::path config = run / "config.yml";
  if (fs::exists(config, ignored)) {
    const config::Config given = config::load(config).config;
    const config::RunConfig& keys = given.run;
    max_steps = std::max<int64_t>(0, given.optimizer.max_train_steps);
    metrics = keys.metrics_file.empty() ? metrics : fs::path(keys.metrics_file);
    checkpoints = keys.checkpoint_dir.empty() ? checkpoints : fs::path(keys.checkpoint_dir);
  }
}

RunOverview::State RunOverview::state() const {
  const bool is_done = files.max_steps > 0 && steps() >= files.max_steps;
  return is_done ? State::DONE : is_running ? State::RUNNING : State::STOPPED;
}

std::vector<double> RunOverview::column(double training::MetricsRow::*which) const {
  std::vector<double> out;
  for (const training::MetricsRow& row : rows) {
    out.push_back(row.*which);
  }
  return out;
}

double RunOverview::recent_mean(double training::MetricsRow::*which) const {
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
  return runs::slowest_process(recent);
}

io::Json RunOverview::json() const {
  const training::MetricsRow& last = rows.back();
  io::Json saved = io::Json::array();
  for (const int64_t step : training::CheckpointFolder(files.checkpoints).steps()) {
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

}  // namespace kinema::runs
