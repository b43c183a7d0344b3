#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "kinema/cli/commands.h"
#include "kinema/cli/console.h"
#include "kinema/cli/drawing.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/reports/compare.h"

namespace kinema::cli {
namespace {

using reports::Comparison;

struct CompareOptions {
  std::vector<std::string> runs;
  std::string svg;
  bool json = false;
};

/// Prints the rows as a table with aligned columns.
void print_table(const std::vector<Comparison::Row>& rows) {
  std::vector<size_t> widths(rows.front().cells.size() + 1);
  for (const Comparison::Row& row : rows) {
    widths[0] = std::max(widths[0], row.name.size());
    for (size_t i = 0; i < row.cells.size(); ++i) {
      widths[i + 1] = std::max(widths[i + 1], row.cells[i].size());
    }
  }
  for (const Comparison::Row& row : rows) {
    std::string line = fmt::format("{:{}}", row.name, widths[0]);
    for (size_t i = 0; i < row.cells.size(); ++i) {
      line += fmt::format("  {:{}}", row.cells[i], widths[i + 1]);
    }
    print_line(line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

/// Plots each metric that every run has, with one curve per run on a common axis.
void print_curves(const Comparison& all) {
  constexpr int kRows = 6;
  constexpr int kNarrowest = 24;
  const auto count = static_cast<int>(all.runs.size());
  const int width = std::max(kNarrowest, terminal_size().columns / count);
  for (const reports::ComparedCurve& curve : all.curves) {
    print_line("\n" + curve.title);
    std::vector<std::string> lines(kRows + 1);
    for (size_t i = 0; i < curve.runs.size(); ++i) {
      std::vector<std::string> drawn =
          curve_lines(curve.runs[i].values, width - 2, kRows, curve.range());
      drawn.resize(kRows, std::string(static_cast<size_t>(width - 2), ' '));
      for (size_t row = 0; row < drawn.size(); ++row) {
        lines[row] += drawn[row] + "  ";
      }
      lines[kRows] += fmt::format("{:>11}{:<{}.{}}", "", all.runs[i].name, width - 11, width - 12);
    }
    for (const std::string& line : lines) {
      print_line(line);
    }
  }
}

int compare(const CompareOptions& options) {
  if (!options.svg.empty()) {
    io::check_replaceable(options.svg, reports::kSvgMark, "curves of kinema compare");
  }
  const std::vector<std::filesystem::path> folders(options.runs.begin(), options.runs.end());
  const Comparison found = reports::compare(folders);
  if (!options.svg.empty()) {
    io::write_file(options.svg, found.svg());
  }
  if (options.json) {
    print_line(found.json().dump());
    return 0;
  }
  std::vector<Comparison::Row> rows{{.name = "", .cells = {}}};
  for (const reports::RunSummary& run : found.runs) {
    rows[0].cells.push_back(run.name);
  }
  const std::vector<Comparison::Row> table = found.table();
  rows.insert(rows.end(), table.begin(), table.end());
  rows.insert(rows.end(), found.differences.begin(), found.differences.end());
  print_table(rows);
  print_curves(found);
  if (!options.svg.empty()) {
    print_line("\ncurves drawn: " + options.svg);
  }
  return 0;
}

}  // namespace

void add_compare(Program& program) {
  Command command = program.add("compare", "Compare runs: their results, differing keys, curves");
  const auto options = std::make_shared<CompareOptions>();
  command.option("RUN RUN...", options->runs, "the runs' folders: output_dir/run_name").required();
  command.option("--svg", options->svg, "write the curves to this SVG file");
  command.flag("--json", options->json, "print JSON, with curves of at most 500 points");
  command.run([options] { return compare(*options); });
}

}  // namespace kinema::cli
