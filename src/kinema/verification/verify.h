#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"

/// Compares this build and device with cases computed by the reference implementations.
namespace kinema::verification {

/// One tensor of one case.
struct Row {
  std::string name;    // `transformer (scan)`
  std::string tensor;  // `output`
  double max_diff = 0;
  double rms_diff = 0;
  double limit = 0;
  bool ok = false;
  /// True if this build does not support the case; it counts neither as passed nor as failed.
  bool unsupported = false;
  /// False: there are no numbers, because of a missing file or an error.
  bool compared = true;
  /// The reason if the row is not ok; may be empty.
  std::string message;
};

struct Options {
  /// Only cases whose name contains this.
  std::string filter;
  /// Skips cases whose name contains one of these.
  std::vector<std::string> skip;
  /// The forms of the transformer to run.
  bool scan_on = true;
  bool scan_off = true;
  /// Kernels, compiler flags, and the folder of compiled programs.
  runtime::ProgramOptions program;
  /// Cases that run at the same time; 0: one per core, at most 4.
  int threads = 0;
  /// Called after each case with its rows, in order of completion, one call at a time.
  std::function<void(const std::vector<Row>& rows)> on_case;
  /// Called before each compilation, on any thread; if it throws Stopped, the run stops.
  std::function<void()> check_stop;
};

struct Report {
  std::vector<Row> rows;
  /// True if no supported row fails, and there is at least one.
  bool ok() const;
};

/// Runs every case in `folder/io` that this build supports; each other case becomes one
/// `unsupported` row. A missing or corrupt file fails only its case. Throws an Error if the folder
/// has no cases or the filter matches none.
///
/// Limits are those of the fixtures' README for f32. Products are computed at the highest precision
/// of the device.
Report run(const std::filesystem::path& folder, const pjrt::Client& client,
           const Options& options = {});

/// {"cases": [{"case", "tensor", "max_diff", "rms_diff", "limit", "ok", "unsupported"}]}
std::string to_json(const Report& report);

/// A table: header, one line per row, failures with reasons, and the totals.
std::string to_table(const Report& report);

}  // namespace kinema::verification
