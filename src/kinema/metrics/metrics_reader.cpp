#include "kinema/metrics/metrics_reader.h"

#include <sys/stat.h>

#include <fstream>
#include <limits>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::metrics {
namespace {

double number(const io::Json& row, const char* key) {
  const io::Json* value = row.find(key);
  return value != nullptr && !value->is_null() ? value->as_number()
                                               : std::numeric_limits<double>::quiet_NaN();
}

/// Adds the contents of a line: a step, or an evaluation.
void add_row(const std::string& line, std::vector<MetricsRow>& steps,
             std::vector<EvaluationRow>& evaluations) {
  try {
    const io::Json row = io::Json::parse(line, "metrics.jsonl");
    if (row.find("learning/eval_loss") != nullptr) {
      evaluations.push_back({row.at("step").as_int(), number(row, "learning/eval_loss")});
    }
    if (row.find("learning/loss") == nullptr) {
      return;
    }
    MetricsRow out;
    out.step = row.at("step").as_int();
    out.loss = number(row, "learning/loss");
    out.learning_rate = number(row, "learning/current_learning_rate");
    out.gradient_norm = number(row, "learning/grad_norm");
    out.seconds = number(row, "perf/step_time_seconds");
    out.expected_seconds = number(row, "perf/expected_step_time_seconds");
    out.bytes = number(row, row.contains("perf/device_bytes_in_use") ? "perf/device_bytes_in_use"
                                                                     : "perf/rss_bytes");
    out.tflops_per_second = number(row, "perf/per_device_tflops_per_sec");
    out.epoch = number(row, "learning/epoch");
    if (const io::Json* time = row.find("time")) {
      out.time = time->as_string();
    }
    if (const io::Json* expert = row.find("learning/expert")) {
      out.expert = expert->as_string();
    }
    if (const io::Json* seconds = row.find("perf/process_seconds")) {
      for (const io::Json& each : seconds->items()) {
        out.process_seconds.push_back(each.as_number());
      }
    }
    if (const io::Json* where = row.find("nonfinite")) {
      out.nonfinite = where->as_string();
    }
    steps.push_back(std::move(out));
  } catch (const Error&) {  // unknown lines are skipped
  }
}

}  // namespace

bool MetricsReader::poll() {
  struct stat now {};
  if (::stat(path_.c_str(), &now) != 0) {
    return false;
  }
  if (now.st_ino != file_ || now.st_size < read_) {
    file_ = now.st_ino;
    read_ = 0;
    rows_.clear();
    evaluations_.clear();
  }
  if (now.st_size == read_) {
    return false;
  }
  std::ifstream in(path_, std::ios::binary);
  in.seekg(read_);
  const int64_t before = read_;
  // The last line may still be incomplete.
  for (std::string line; std::getline(in, line) && !in.eof();) {
    read_ += static_cast<int64_t>(line.size()) + 1;
    add_row(line, rows_, evaluations_);
  }
  return read_ != before;
}

}  // namespace kinema::metrics
