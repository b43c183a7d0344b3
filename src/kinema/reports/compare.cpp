#include "kinema/reports/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <system_error>

#include "kinema/core/error.h"
#include "kinema/metrics/metrics.h"
#include "kinema/metrics/metrics_reader.h"
#include "kinema/metrics/plot.h"
#include "kinema/reports/run_overview.h"
#include "kinema/resolve/run_keys.h"

namespace kinema::reports {
namespace {

namespace fs = std::filesystem;
using metrics::MetricsRow;

/// The files of a run.
struct ReadRun {
  fs::path folder;
  std::vector<MetricsRow> rows;
  std::vector<metrics::EvaluationRow> evaluations;
  /// Keys and values; empty without a config.yml.
  std::vector<std::pair<std::string, std::string>> settings;
};

ReadRun read(const fs::path& folder) {
  std::error_code ignored;
  check(fs::is_directory(folder, ignored), "[compare] {} is not a folder of a run",
        folder.string());
  const RunFiles files(folder);
  check(fs::exists(files.metrics, ignored),
        "[compare] {} is not a folder of a run: there is no {}\n  kinema train writes one in "
        "output_dir/run_name",
        folder.string(), files.metrics.filename().string());
  metrics::MetricsReader reader(files.metrics);
  reader.poll();
  check(!reader.rows().empty(), "[compare] the run in {} has made no step", folder.string());
  ReadRun out{.folder = folder, .rows = reader.rows(), .evaluations = reader.evaluations()};
  if (const fs::path config = folder / "config.yml"; fs::exists(config, ignored)) {
    out.settings = resolve::read_run_keys(config).all;
  }
  return out;
}

/// The curve of all steps, or of one expert's steps ("": a run that trains one network).
ComparedCurve::Of curve_of(const ReadRun& run, double MetricsRow::*which,
                           std::optional<std::string_view> expert = {}) {
  ComparedCurve::Of out;
  for (const MetricsRow& row : run.rows) {
    if (std::isfinite(row.*which) && row.expert == expert.value_or(row.expert)) {
      out.steps.push_back(static_cast<double>(row.step) + 1);
      out.values.push_back(row.*which);
    }
  }
  return out;
}

ComparedCurve::Of mean_of(const ReadRun& run, double MetricsRow::*which,
                          std::optional<std::string_view> expert = {}) {
  ComparedCurve::Of out = curve_of(run, which, expert);
  out.values = metrics::smoothed(out.values).values;
  return out;
}

/// Without the first step, which includes setup.
ComparedCurve::Of seconds_of(const ReadRun& run) {
  ComparedCurve::Of out = curve_of(run, &MetricsRow::seconds);
  if (out.values.size() > 1) {
    out.steps.erase(out.steps.begin());
    out.values.erase(out.values.begin());
  }
  return out;
}

ComparedCurve::Of evaluations_of(const ReadRun& run) {
  ComparedCurve::Of out;
  for (const metrics::EvaluationRow& row : run.evaluations) {
    if (std::isfinite(row.loss)) {
      out.steps.push_back(static_cast<double>(row.step) + 1);
      out.values.push_back(row.loss);
    }
  }
  return out;
}

template <typename F>
void add_curve(std::vector<ComparedCurve>& curves, const std::string& title,
               std::span<const ReadRun> runs, const F& of) {
  ComparedCurve curve{.title = title, .runs = {}};
  for (const ReadRun& run : runs) {
    curve.runs.push_back(of(run));
  }
  if (curve.range()) {
    curves.push_back(std::move(curve));
  }
}

double median(std::vector<double> values) {
  if (values.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The experts that are trained in any of the runs.
std::set<std::string> experts_of(std::span<const ReadRun> runs) {
  std::set<std::string> out;
  for (const ReadRun& run : runs) {
    for (const MetricsRow& row : run.rows) {
      if (!row.expert.empty()) {
        out.insert(row.expert);
      }
    }
  }
  return out;
}

RunSummary summary_of(const ReadRun& run, const std::string& name) {
  RunSummary out{.name = name, .folder = run.folder, .steps = run.rows.back().step + 1};
  const auto best = [](const ComparedCurve::Of& curve) {
    return static_cast<size_t>(std::ranges::min_element(curve.values) - curve.values.begin());
  };
  const ComparedCurve::Of losses = mean_of(run, &MetricsRow::loss, "");
  for (const std::string& expert : experts_of(std::span(&run, 1))) {
    const ComparedCurve::Of own = mean_of(run, &MetricsRow::loss, expert);
    out.experts[expert] =
        own.values.empty() ? std::numeric_limits<double>::quiet_NaN() : own.values.back();
  }
  if (losses.values.empty()) {
    out.loss = out.best_loss = std::numeric_limits<double>::quiet_NaN();
  } else {
    out.loss = losses.values.back();
    out.best_loss = losses.values[best(losses)];
    out.best_step = static_cast<int64_t>(losses.steps[best(losses)]);
  }
  if (const ComparedCurve::Of evaluated = evaluations_of(run); !evaluated.values.empty()) {
    out.eval_loss = evaluated.values.back();
    out.best_eval_loss = evaluated.values[best(evaluated)];
    out.best_eval_step = static_cast<int64_t>(evaluated.steps[best(evaluated)]);
  }
  out.steps_per_second = 1.0 / median(seconds_of(run).values);
  return out;
}

/// Counts the steps that both runs have made, and those from the first on whose losses are equal in
/// all bits.
void count_equal_steps(const ReadRun& first, const ReadRun& run, RunSummary& out) {
  std::map<int64_t, double> losses;
  for (const MetricsRow& row : first.rows) {
    losses[row.step] = row.loss;
  }
  bool equal = true;
  for (const MetricsRow& row : run.rows) {
    if (const auto found = losses.find(row.step); found != losses.end()) {
      equal = equal && found->second == row.loss;
      ++out.common_steps;
      out.equal_steps += equal ? 1 : 0;
    }
  }
}

/// The keys that differ between runs, without the name and paths.
std::vector<Comparison::Row> differences_of(std::span<const ReadRun> runs) {
  std::vector<Comparison::Row> out;
  const auto known =
      std::ranges::find_if(runs, [](const ReadRun& run) { return !run.settings.empty(); });
  for (size_t k = 0; known != runs.end() && k < known->settings.size(); ++k) {
    Comparison::Row row{.name = known->settings[k].first, .cells = {}};
    for (const ReadRun& run : runs) {
      row.cells.push_back(run.settings.empty() ? "?" : run.settings[k].second);
    }
    const bool differs = std::ranges::any_of(
        row.cells, [&](const std::string& cell) { return cell != row.cells.front(); });
    if (differs && row.name != "run_name") {
      out.push_back(std::move(row));
    }
  }
  return out;
}

/// The last parts of the folders' paths, or the full paths if two are the same.
std::vector<std::string> names_of(std::span<const fs::path> folders) {
  std::vector<std::string> out;
  for (const fs::path& folder : folders) {
    const fs::path whole = folder.lexically_normal();
    out.push_back((whole.has_filename() ? whole : whole.parent_path()).filename().string());
  }
  if (std::set<std::string>(out.begin(), out.end()).size() < out.size()) {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = folders[i].string();
    }
  }
  return out;
}

io::Json to_json(const ComparedCurve::Of& curve) {
  constexpr size_t kMost = 500;
  const size_t stride = (curve.steps.size() + kMost - 1) / kMost;
  io::Json steps = io::Json::array();
  io::Json values = io::Json::array();
  for (size_t i = 0; i < curve.steps.size(); i += stride) {
    steps.append(curve.steps[i]);
    values.append(curve.values[i]);
  }
  return io::Json::object({{"steps", std::move(steps)}, {"values", std::move(values)}});
}

io::Json to_json(const RunSummary& run) {
  io::Json out = io::Json::object({{"name", run.name},
                                   {"run_folder", run.folder.string()},
                                   {"steps", run.steps},
                                   {"loss", run.loss},
                                   {"best_loss", run.best_loss},
                                   {"best_step", run.best_step},
                                   {"steps_per_second", run.steps_per_second},
                                   {"common_steps", run.common_steps},
                                   {"equal_steps", run.equal_steps}});
  if (!run.experts.empty()) {
    io::Json experts = io::Json::object();
    for (const auto& [expert, loss] : run.experts) {
      experts.set(expert, loss);
    }
    out.set("experts", std::move(experts));
  }
  if (run.eval_loss) {
    out.set("eval_loss", *run.eval_loss)
        .set("best_eval_loss", *run.best_eval_loss)
        .set("best_eval_step", run.best_eval_step);
  }
  return out;
}

}  // namespace

std::optional<std::pair<double, double>> ComparedCurve::range() const {
  std::optional<std::pair<double, double>> out;
  for (const Of& run : runs) {
    for (const double value : run.values) {
      if (std::isfinite(value)) {
        out = out ? std::pair(std::min(out->first, value), std::max(out->second, value))
                  : std::pair(value, value);
      }
    }
  }
  return out;
}

std::vector<Comparison::Row> Comparison::table() const {
  std::vector<Row> out;
  const auto add = [&](const std::string& name, const auto& cell_of) {
    Row row{.name = name, .cells = {}};
    for (const RunSummary& run : runs) {
      row.cells.push_back(cell_of(run));
    }
    out.push_back(std::move(row));
  };
  const auto best = [](double loss, int64_t step) {
    return std::isfinite(loss) ? fmt::format("{:.4g} (step {})", loss, step) : "-";
  };
  const auto number = [](double loss) {
    return std::isfinite(loss) ? fmt::format("{:.4g}", loss) : "-";
  };
  add("steps", [](const RunSummary& run) { return std::to_string(run.steps); });
  add("mean loss, last", [&](const RunSummary& run) { return number(run.loss); });
  add("mean loss, best", [&](const RunSummary& run) { return best(run.best_loss, run.best_step); });
  std::set<std::string> experts;
  for (const RunSummary& run : runs) {
    for (const auto& [expert, loss] : run.experts) {
      experts.insert(expert);
    }
  }
  for (const std::string& expert : experts) {
    add("mean loss of " + expert + ", last", [&](const RunSummary& run) {
      const auto found = run.experts.find(expert);
      return found == run.experts.end() ? "-" : number(found->second);
    });
  }
  if (std::ranges::any_of(runs, [](const RunSummary& run) { return run.eval_loss.has_value(); })) {
    add("evaluation, last", [](const RunSummary& run) {
      return run.eval_loss ? fmt::format("{:.4g}", *run.eval_loss) : "-";
    });
    add("evaluation, best", [&](const RunSummary& run) {
      return run.best_eval_loss ? best(*run.best_eval_loss, run.best_eval_step) : "-";
    });
  }
  add("losses equal to " + runs.front().name + "'s", [&](const RunSummary& run) {
    return &run == &runs.front() ? std::string("-")
           : run.common_steps > 0 && run.equal_steps == run.common_steps
               ? fmt::format("at all {} steps", run.common_steps)
               : fmt::format("at the first {} of {} steps", run.equal_steps, run.common_steps);
  });
  add("steps a second",
      [](const RunSummary& run) { return fmt::format("{:.3g}", run.steps_per_second); });
  return out;
}

io::Json Comparison::json() const {
  io::Json summaries = io::Json::array();
  for (const RunSummary& run : runs) {
    summaries.append(to_json(run));
  }
  io::Json keys = io::Json::object();
  for (const Row& row : differences) {
    io::Json values = io::Json::array();
    for (const std::string& cell : row.cells) {
      values.append(cell);
    }
    keys.set(row.name, std::move(values));
  }
  io::Json drawn = io::Json::object();
  for (const ComparedCurve& curve : curves) {
    io::Json each = io::Json::array();
    for (const ComparedCurve::Of& run : curve.runs) {
      each.append(to_json(run));
    }
    drawn.set(curve.title, std::move(each));
  }
  return io::Json::object({{"runs", std::move(summaries)},
                           {"differences", std::move(keys)},
                           {"curves", std::move(drawn)}});
}

std::string Comparison::svg() const {
  std::vector<metrics::Plot> plots;
  for (const ComparedCurve& curve : curves) {
    metrics::Plot plot{.title = curve.title, .lines = {}};
    for (size_t i = 0; i < curve.runs.size(); ++i) {
      plot.lines.push_back({.xs = curve.runs[i].steps,
                            .ys = curve.runs[i].values,
                            .colour = metrics::plot_colour(i),
                            .label = runs[i].name});
    }
    plots.push_back(std::move(plot));
  }
  return std::string(kSvgMark) + metrics::svg(plots, 2);
}

Comparison compare(std::span<const fs::path> folders) {
  std::vector<ReadRun> runs;
  for (const fs::path& folder : folders) {
    runs.push_back(read(folder));
  }
  check(runs.size() >= 2, "[compare] {} run was given, expected two or more", runs.size());
  const std::vector<std::string> names = names_of(folders);
  Comparison out;
  for (size_t i = 0; i < runs.size(); ++i) {
    out.runs.push_back(summary_of(runs[i], names[i]));
    count_equal_steps(runs.front(), runs[i], out.runs.back());
  }
  add_curve(out.curves, "loss", runs,
            [](const ReadRun& run) { return mean_of(run, &MetricsRow::loss, ""); });
  for (const std::string& expert : experts_of(runs)) {
    add_curve(out.curves, "loss of " + expert, runs,
              [&](const ReadRun& run) { return mean_of(run, &MetricsRow::loss, expert); });
  }
  add_curve(out.curves, "evaluation loss", runs, evaluations_of);
  add_curve(out.curves, "learning rate", runs,
            [](const ReadRun& run) { return curve_of(run, &MetricsRow::learning_rate); });
  add_curve(out.curves, "gradient norm", runs,
            [](const ReadRun& run) { return mean_of(run, &MetricsRow::gradient_norm); });
  add_curve(out.curves, "seconds a step", runs, seconds_of);
  out.differences = differences_of(runs);
  return out;
}

}  // namespace kinema::reports
