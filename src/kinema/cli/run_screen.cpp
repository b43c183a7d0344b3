#include "kinema/cli/run_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "kinema/cli/commands.h"
#include "kinema/cli/quantities.h"
#include "kinema/core/error.h"
#include "kinema/io/image.h"
#include "kinema/training/checkpoint_folder.h"
#include "kinema/training/flops.h"
#include "kinema/training/metrics.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;
constexpr size_t kRecent = 100;  // steps that a mean is taken of

std::vector<double> column(const std::vector<training::MetricsRow>& rows,
                           double training::MetricsRow::*which) {
  std::vector<double> out;
  for (const training::MetricsRow& row : rows) {
    out.push_back(row.*which);
  }
  return out;
}

std::vector<double> finite(std::vector<double> values) {
  std::erase_if(values, [](double x) { return !std::isfinite(x); });
  return values;
}

/// The mean of the last values that are finite; NaN without any.
double recent_mean(const std::vector<double>& values) {
  const std::vector<double> recent = finite(
      {values.end() - static_cast<ptrdiff_t>(std::min(values.size(), kRecent)), values.end()});
  double sum = 0;
  for (const double value : recent) {
    sum += value;
  }
  return recent.empty() ? std::numeric_limits<double>::quiet_NaN()
                        : sum / static_cast<double>(recent.size());
}

/// The contact sheet that was written last below `samples`.
std::optional<fs::path> newest_sheet(const fs::path& samples) {
  std::optional<fs::path> newest;
  fs::file_time_type when;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(samples, error), end; entry != end && !error;
       entry.increment(error)) {
    if (entry->path().filename() == "contact_sheet.png") {
      const fs::file_time_type written = entry->last_write_time(error);
      if (!newest || written > when) {
        newest = entry->path();
        when = written;
      }
    }
  }
  return newest;
}

double recent_loss(const RunScreen& run) {
  return recent_mean(column(run.rows, &training::MetricsRow::loss));
}
double recent_seconds(const RunScreen& run) {
  return recent_mean(column(run.rows, &training::MetricsRow::seconds));
}

/// `20 steps of 50, 1:00 left`.
std::string progress_text(const RunScreen& run) {
  std::string text = counted(run.steps(), "step");
  if (run.files.max_steps > 0) {
    text += fmt::format(" of {}", run.files.max_steps);
  }
  switch (run.state()) {
    case RunScreen::State::DONE:
      return text + ", done";
    case RunScreen::State::STOPPED:
      return "stopped after " + text;
    case RunScreen::State::RUNNING:
      break;
  }
  const double left = static_cast<double>(run.files.max_steps - run.steps()) * recent_seconds(run);
  return run.files.max_steps > 0 && std::isfinite(left)
             ? fmt::format("{}, {} left", text, clock_text(left))
             : text;
}

std::vector<std::string> headings(const RunScreen& run, int columns) {
  const training::MetricsRow& last = run.rows.back();
  const training::FlopRate rate = training::flop_rate(last.tflops_per_second);
  std::vector<std::string> out = flowed({run.files.run.string(), progress_text(run)}, columns);
  const auto add = [&](const std::vector<std::string>& fields) {
    const std::vector<std::string> lines = flowed(fields, columns);
    out.insert(out.end(), lines.begin(), lines.end());
  };
  const auto recent = static_cast<int64_t>(std::min(run.rows.size(), kRecent));
  add({recent > 1 ? fmt::format("loss {:.4g} (last {} {:.4g})", last.loss, counted(recent, "step"),
                                recent_loss(run))
                  : fmt::format("loss {:.4g}", last.loss),
       fmt::format("gradient norm {:.3g}", last.gradient_norm),
       fmt::format("learning rate {:.3g}", last.learning_rate),
       fmt::format("{:.3f} s a step", recent_seconds(run)),
       std::isfinite(rate.value) ? fmt::format("{:.3g} {}/device", rate.value, rate.unit) : ""});
  const auto is_bad = [](const training::MetricsRow& row) { return !row.nonfinite.empty(); };
  if (const auto bad = std::ranges::count_if(run.rows, is_bad); bad > 0) {
    const auto worst = std::find_if(run.rows.rbegin(), run.rows.rend(), is_bad);
    add({fmt::format("{} {} not finite, the last:", counted(bad, "step"),
                     bad == 1 ? "was" : "were"),
         fmt::format("step {} in {}", worst->step + 1, worst->nonfinite)});
  }
  const std::vector<int64_t> saved = training::CheckpointFolder(run.files.checkpoints).steps();
  add({saved.empty()
           ? "no checkpoint yet"
           : fmt::format("{}, the newest after step {}",
                         counted(static_cast<int64_t>(saved.size()), "checkpoint"), saved.back())});
  return out;
}

}  // namespace

RunFiles::RunFiles(fs::path folder) : run(std::move(folder)) {
  std::error_code ignored;
  check(fs::is_directory(run, ignored),
        "[watch] {} is no run folder\n  it is output_dir/run_name of the run's configuration",
        run.string());
  metrics = run / "metrics.jsonl";
  checkpoints = run / "checkpoints";
  const fs::path config = run / "config.yml";
  if (fs::exists(config, ignored)) {
    const std::vector<std::string> words{config.string()};
    const config::Config given = load_arguments(words, /*need_file=*/true).config;
    const config::RunConfig& keys = given.run;
    max_steps = std::max<int64_t>(0, given.optimizer.max_train_steps);
    metrics = keys.metrics_file.empty() ? metrics : fs::path(keys.metrics_file);
    checkpoints = keys.checkpoint_dir.empty() ? checkpoints : fs::path(keys.checkpoint_dir);
  }
}

RunScreen::State RunScreen::state() const {
  const bool is_done = files.max_steps > 0 && steps() >= files.max_steps;
  return is_done ? State::DONE : is_running ? State::RUNNING : State::STOPPED;
}

std::vector<std::string> RunScreen::lines(const TerminalSize& size, bool pictures) const {
  std::vector<std::string> out = headings(*this, size.columns);
  const auto add = [&](const std::string& title, const std::vector<std::string>& more) {
    if (!more.empty()) {
      out.insert(out.end(), {"", flowed({title}, size.columns).front()});
      out.insert(out.end(), more.begin(), more.end());
    }
  };
  const std::optional<fs::path> sheet = newest_sheet(files.run / "samples");
  const int room = size.rows - static_cast<int>(out.size()) - (sheet ? 8 : 6);
  const int curve_rows = std::clamp(sheet && pictures ? room / 3 : 2 * room / 3, 3, 16);
  const training::Smoothed loss =
      training::smoothed(finite(column(rows, &training::MetricsRow::loss)));
  add(loss.width > 1 ? fmt::format("loss, mean of {} steps", loss.width) : "loss",
      curve_lines(loss.values, size.columns, curve_rows));
  // The first step waits for the data to come in.
  std::vector<double> seconds = column(rows, &training::MetricsRow::seconds);
  seconds.erase(seconds.begin(), seconds.begin() + (seconds.size() > 1 ? 1 : 0));
  add("seconds a step", curve_lines(seconds, size.columns, std::max(2, curve_rows / 3)));
  if (sheet) {
    const int left = size.rows - static_cast<int>(out.size()) - 3;
    add("samples: " + sheet->string(),
        pictures ? picture_lines(io::read_image(*sheet), size.columns, std::max(4, left))
                 : std::vector<std::string>{"  (a picture is shown in a terminal)"});
  }
  return out;
}

io::Json RunScreen::json() const {
  const training::MetricsRow& last = rows.back();
  io::Json saved = io::Json::array();
  for (const int64_t step : training::CheckpointFolder(files.checkpoints).steps()) {
    saved.append(step);
  }
  return io::Json::object({{"run_folder", files.run.string()},
                           {"steps", steps()},
                           {"max_train_steps", files.max_steps},
                           {"done", state() == State::DONE},
                           {"stopped", state() == State::STOPPED},
                           {"loss", last.loss},
                           {"recent_loss", recent_loss(*this)},
                           {"gradient_norm", last.gradient_norm},
                           {"learning_rate", last.learning_rate},
                           {"step_time_seconds", recent_seconds(*this)},
                           {"tflops_per_device_per_sec", last.tflops_per_second},
                           {"checkpoints", std::move(saved)}});
}

std::vector<std::string> flowed(const std::vector<std::string>& fields, int columns) {
  constexpr const char* kBetween = "   ";
  const auto most = static_cast<size_t>(std::max(columns, 8));
  std::vector<std::string> lines;
  for (const std::string& field : fields) {
    if (field.empty()) {
      continue;
    }
    const std::string text =
        field.size() <= most ? field : "..." + field.substr(field.size() - (most - 3));
    if (!lines.empty() && lines.back().size() + 3 + text.size() <= most) {
      lines.back() += kBetween + text;
    } else {
      lines.push_back(text);
    }
  }
  return lines;
}

}  // namespace kinema::cli
