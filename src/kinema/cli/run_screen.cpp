#include "kinema/cli/run_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/core/printable.h"
#include "kinema/core/quantities.h"
#include "kinema/media/image.h"
#include "kinema/metrics/metrics.h"
#include "kinema/training/flops.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;
using reports::RunOverview;

/// The newest contact sheet in `samples` and its subfolders.
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

/// `20 steps of 50, 1:00 left`.
std::string progress_text(const RunOverview& run) {
  std::string text = counted(run.steps(), "step");
  if (run.files.max_steps > 0) {
    text += fmt::format(" of {}", run.files.max_steps);
  }
  switch (run.state()) {
    case RunOverview::State::DONE:
      return text + ", done";
    case RunOverview::State::STOPPED:
      return "stopped after " + text;
    case RunOverview::State::RUNNING:
      break;
  }
  const double left = static_cast<double>(run.files.max_steps - run.steps()) * run.recent_seconds();
  return run.files.max_steps > 0 && std::isfinite(left)
             ? fmt::format("{}, {} left", text, clock_text(left))
             : text;
}

std::vector<std::string> headings(const RunOverview& run, int columns) {
  const metrics::MetricsRow& last = run.rows.back();
  const training::FlopRate rate = training::flop_rate(last.tflops_per_second);
  std::vector<std::string> out = flowed({run.files.run.string(), progress_text(run)}, columns);
  const auto add = [&](const std::vector<std::string>& fields) {
    const std::vector<std::string> lines = flowed(fields, columns);
    out.insert(out.end(), lines.begin(), lines.end());
  };
  const auto recent = static_cast<int64_t>(std::min(run.rows.size(), RunOverview::kRecent));
  add({recent > 1 ? fmt::format("loss {:.4g} (last {} {:.4g})", last.loss, counted(recent, "step"),
                                run.recent_loss())
                  : fmt::format("loss {:.4g}", last.loss),
       fmt::format("gradient norm {:.3g}", last.gradient_norm),
       fmt::format("learning rate {:.3g}", last.learning_rate),
       fmt::format("{:.3f} s a step", run.recent_seconds()),
       std::isfinite(rate.value) ? fmt::format("{:.3g} {}/device", rate.value, rate.unit) : ""});
  if (const std::string slowest = run.slowest_process(); !slowest.empty()) {
    add({slowest});
  }
  const auto is_bad = [](const metrics::MetricsRow& row) { return !row.nonfinite.empty(); };
  if (const auto bad = std::ranges::count_if(run.rows, is_bad); bad > 0) {
    const auto worst = std::find_if(run.rows.rbegin(), run.rows.rend(), is_bad);
    add({fmt::format("{} {} not finite, the last:", counted(bad, "step"),
                     bad == 1 ? "was" : "were"),
         fmt::format("step {} in {}", worst->step + 1, worst->nonfinite)});
  }
  const std::vector<int64_t> saved = checkpoints::CheckpointFolder(run.files.checkpoints).steps();
  add({saved.empty()
           ? "no checkpoint yet"
           : fmt::format("{}, the newest after step {}",
                         counted(static_cast<int64_t>(saved.size()), "checkpoint"), saved.back())});
  return out;
}

}  // namespace

std::vector<std::string> screen_lines(const RunOverview& run, const TerminalSize& size,
                                      bool pictures) {
  std::vector<std::string> out = headings(run, size.columns);
  const auto add = [&](const std::string& title, const std::vector<std::string>& more) {
    if (!more.empty()) {
      out.insert(out.end(), {"", flowed({title}, size.columns).front()});
      out.insert(out.end(), more.begin(), more.end());
    }
  };
  const std::optional<fs::path> sheet = newest_sheet(run.files.run / "samples");
  const int room = size.rows - static_cast<int>(out.size()) - (sheet ? 8 : 6);
  const int curve_rows = std::clamp(sheet && pictures ? room / 3 : 2 * room / 3, 3, 16);
  const metrics::Smoothed loss =
      metrics::smoothed(reports::finite(run.column(&metrics::MetricsRow::loss)));
  add(loss.width > 1 ? fmt::format("loss, mean of {} steps", loss.width) : "loss",
      curve_lines(loss.values, size.columns, curve_rows));
  // The first step includes waiting for the first data.
  std::vector<double> seconds = run.column(&metrics::MetricsRow::seconds);
  seconds.erase(seconds.begin(), seconds.begin() + (seconds.size() > 1 ? 1 : 0));
  add("seconds a step", curve_lines(seconds, size.columns, std::max(2, curve_rows / 3)));
  if (sheet) {
    const int left = size.rows - static_cast<int>(out.size()) - 3;
    add("samples: " + sheet->string(),
        pictures ? picture_lines(media::read_image(*sheet), size.columns, std::max(4, left))
                 : std::vector<std::string>{"  (a picture is shown in a terminal)"});
  }
  return out;
}

std::vector<std::string> flowed(const std::vector<std::string>& fields, int columns) {
  constexpr const char* kBetween = "   ";
  const auto most = static_cast<size_t>(std::max(columns, 8));
  std::vector<std::string> lines;
  for (const std::string& given : fields) {
    if (given.empty()) {
      continue;
    }
    const std::string field = printable(given);
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
