#include "kinema/agents/run_logs.h"

#include <cmath>
#include <limits>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"

namespace kinema::agents {

void Means::add(const std::string& name, double value) {
  Sum& sum = sums_[name];
  if (!std::isnan(value)) {
    sum.sum += value;
    ++sum.count;
  }
}

double Means::mean(const std::string& name) const {
  const auto found = sums_.find(name);
  return found == sums_.end() || found->second.count == 0
             ? std::numeric_limits<double>::quiet_NaN()
             : found->second.sum / static_cast<double>(found->second.count);
}

std::vector<metrics::Scalar> Means::take(const std::string& prefix) {
  std::vector<metrics::Scalar> out;
  for (const auto& [name, sum] : sums_) {
    out.push_back({prefix + name, mean(name)});
  }
  sums_.clear();
  return out;
}

JsonLines::JsonLines(const std::filesystem::path& path, int64_t first_step) : path_(path) {
  std::string kept;
  if (std::filesystem::exists(path)) {
    std::ifstream before(path);
    for (std::string line; std::getline(before, line);) {
      constexpr std::string_view kBegin = "{\"step\":";
      check(line.starts_with(kBegin) || before.eof(), "[agents] {} is not a file of metrics: `{}`",
            path.string(), line.substr(0, 40));
      // A last line without its end was being written when the run ended.
      if (!before.eof() &&
          std::stoll("0" + line.substr(line.find_first_of("0123456789"))) <= first_step) {
        kept += line + "\n";
      }
    }
  }
  io::write_file(path, kept);
  file_.open(path, std::ios::app);
  check(file_.is_open(), "[agents] {} cannot be written", path.string());
}

void JsonLines::write(int64_t step, const std::vector<metrics::Scalar>& scalars) {
  io::Json row = io::Json::object({{"step", step}});
  for (const metrics::Scalar& scalar : scalars) {
    row.set(scalar.name, scalar.value);
  }
  file_ << row.dump(-1) << std::endl;
  check(file_.good(), "[agents] {} cannot be written: is the disk full?", path_.string());
}

RunLogs::RunLogs(const std::filesystem::path& folder, int64_t first_step, bool with_metrics,
                 bool with_tensorboard)
    : scores_(folder / "scores.jsonl", first_step) {
  if (with_metrics) {
    metrics_ = std::make_unique<JsonLines>(folder / "metrics.jsonl", first_step);
  }
  if (with_tensorboard) {
    events_ = std::make_unique<metrics::EventFile>(folder / "tensorboard", first_step);
  }
}

void RunLogs::episode(int64_t step, const Episode& episode) {
  scores_.write(step, {{"episode/score", episode.score}});
  write(step, {{"episode/score", episode.score},
               {"episode/length", static_cast<double>(episode.length)}});
}

void RunLogs::write(int64_t step, const std::vector<metrics::Scalar>& scalars) {
  if (metrics_) {
    metrics_->write(step, scalars);
  }
  if (events_) {
    events_->write(step, scalars);
    events_->flush();
  }
}

}  // namespace kinema::agents
