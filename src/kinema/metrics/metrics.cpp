#include "kinema/metrics/metrics.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"

namespace kinema::metrics {

namespace {

/// The JSON of a line, or nothing if the line is incomplete.
std::optional<io::Json> row_of(const std::string& line) {
  try {
    io::Json row = io::Json::parse(line, "metrics.jsonl");
    if (row.is_object() && row.contains("step")) {
      row.at("step").as_number();
      return row;
    }
  } catch (const Error&) {  // an incomplete line is dropped
  }
  return std::nullopt;
}

bool is_of_another(const io::Json& row, const std::string& run_name) {
  const io::Json* name = row.find("run_name");
  return name != nullptr && name->is_string() && name->as_string() != run_name;
}

/// Lines of other runs, and of this one before `first_step`, in order.
std::string kept_lines(const std::filesystem::path& path, const std::string& run_name,
                       int64_t first_step) {
  std::ifstream old(path);
  std::string kept;
  for (std::string line; std::getline(old, line);) {
    const std::optional<io::Json> row = row_of(line);
    if (row && (is_of_another(*row, run_name) ||
                row->at("step").as_number() < static_cast<double>(first_step))) {
      kept += line + "\n";
    }
  }
  return kept;
}

}  // namespace

std::string time_now() {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                     (now - seconds).count());
}

void check_holds_rows(const std::filesystem::path& path, std::string_view begin,
                      std::string_view what) {
  std::ifstream old(path);
  for (std::string line; std::getline(old, line);) {
    const std::string_view start = std::string_view(line).substr(0, begin.size());
    check(start == begin.substr(0, start.size()),
          "[train] {} exists and is not a file of {}: it is not overwritten\n  remove it, or give "
          "another name",
          path.string(), what);
  }
}

MetricsFile::MetricsFile(std::filesystem::path path, std::string run_name, int64_t first_step)
    : path_(std::move(path)), run_name_(std::move(run_name)) {
  check_holds_rows(path_, R"({"step")", "metrics");
  io::write_file(path_, kept_lines(path_, run_name_, first_step));
  file_.open(path_, std::ios::app);
  check(file_.is_open(), "[train] {} cannot be written: {}", path_.string(), errno_text(errno));
}

std::string MetricsFile::write(const training::StepRecord& record) {
  io::Json row = io::Json::object({{"step", record.step},
                                   {"time", time_now()},
                                   {"run_name", run_name_},
                                   {"learning/loss", record.loss},
                                   {"learning/current_learning_rate", record.learning_rate},
                                   {"learning/max_grad_norm", record.gradient_norm},
                                   {"learning/grad_norm", record.gradient_norm},
                                   {"learning/max_abs_grad", record.max_abs_gradient},
                                   {"perf/step_time_seconds", record.seconds},
                                   {"perf/per_device_tflops", record.tflops},
                                   {"perf/per_device_tflops_per_sec",
                                    record.seconds > 0 ? record.tflops / record.seconds : 0.0}});
  if (const double used = model_flops_utilization(record); used > 0) {
    row.set("perf/mfu", used);
  }
  if (record.expected_seconds > 0) {
    row.set("perf/expected_step_time_seconds", record.expected_seconds);
  }
  if (record.estimate) {
    row.set("learning/d", *record.estimate);
    row.set("learning/d_times_learning_rate", *record.estimate * record.learning_rate);
  }
  if (record.epoch) {
    row.set("learning/epoch", *record.epoch);
  }
  if (!record.expert.empty()) {
    row.set("learning/expert", record.expert);
  }
  for (const auto& [name, bytes] : memory_figures(record)) {
    row.set(name, bytes);
  }
  if (!record.process_seconds.empty()) {
    io::Json seconds = io::Json::array();
    for (const double each : record.process_seconds) {
      seconds.append(each);
    }
    row.set("perf/process_seconds", std::move(seconds));
  }
  if (!record.finite) {
    row.set("nonfinite", record.nonfinite);
  }
  return write_row(row);
}

void MetricsFile::write(int64_t step, const training::Evaluation& evaluation) {
  io::Json row = io::Json::object({{"step", step},
                                   {"time", time_now()},
                                   {"run_name", run_name_},
                                   {"learning/eval_loss", evaluation.loss}});
  for (const auto& [timestep, loss] : evaluation.by_timestep) {
    row.set(fmt::format("eval/loss_t{}", timestep), loss);
  }
  write_row(row);
}

void MetricsFile::write(int64_t step, const std::vector<Scalar>& scalars) {
  io::Json row = io::Json::object({{"step", step}, {"time", time_now()}, {"run_name", run_name_}});
  for (const Scalar& scalar : scalars) {
    row.set(scalar.name, scalar.value);
  }
  write_row(row);
}

std::string MetricsFile::write_row(const io::Json& row) {
  std::string line = row.dump(-1);
  file_ << line << std::endl;  // flushed, so that readers see each step
  check(file_.good(), "[train] {} cannot be written: {}", path_.string(), errno_text(errno));
  return line;
}

LossCurve read_losses(const std::filesystem::path& metrics, const std::string& run_name) {
  LossCurve curve;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    const std::optional<io::Json> row = row_of(line);
    if (row && !run_name.empty() && is_of_another(*row, run_name)) {
      continue;
    }
    const io::Json* loss = row ? row->find("learning/loss") : nullptr;
    if (loss != nullptr && !loss->is_null()) {
      curve.steps.push_back(row->at("step").as_number());
      curve.losses.push_back(loss->as_number());
    }
  }
  return curve;
}

}  // namespace kinema::metrics
