#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kinema/pjrt/client.h"
#include "kinema/runtime/program.h"

/// This build and device against cases computed by the reference implementations.
namespace kinema::verification {

/// One tensor of one case.
struct Row {
  std::string name;    // `transformer (scan)`
  std::string tensor;  // `output`
  double max_diff = 0;
  double rms_diff = 0;
  double limit = 0;
  bool ok = false;
  /// The case is in the folder, but this build has no code for it; counts neither way.
  bool unsupported = false;
  /// False: there are no numbers, since something was missing or broken.
  bool compared = true;
  /// Why the row is not ok; may be empty.
  std::string message;
};

struct Options {
  /// Only cases whose name contains this.
  std::string filter;
  /// Not the cases whose name contains one of these.
  std::vector<std::string> skip;
  /// Which forms of the transformer to run.
  bool scan_on = true;
  bool scan_off = true;
  /// Kernels of the target, compiler flags, and the folder of compiled programs.
  runtime::ProgramOptions program;
  /// Cases at the same time; 0: one per core, at most 4.
  int threads = 0;
  /// Called after each case with its rows, in the order in which they end, one call at a time.
  std::function<void(const std::vector<Row>& rows)> on_case;
  /// Called before each program is compiled, on any thread; a Stopped that it throws ends the run.
  std::function<void()> check_stop;
};

struct Report {
  std::vector<Row> rows;
  /// No supported row misses its limit, and there is at least one.
  bool ok() const;
};

/// Runs every case in `folder/io` that this build supports; the others become one `unsupported` row
/// each. A missing or damaged file fails its case only. Throws an Error when the folder has no
/// cases at all or the filter matches none.
///
/// Limits are those of the fixtures' README for f32. Products are computed at the highest precision
/// of the device.
Report run(const std::filesystem::path& folder, const pjrt::Client& client,
           const Options& options = {});

/// {"cases": [{"case", "tensor", "max_diff", "rms_diff", "limit", "ok", "unsupported"}]}
std::string to_json(const Report& report);

/// Lines for people: header, a line a row, what failed and why, and the sum.
std::string to_table(const Report& report);

}  // namespace kinema::verification
