#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kinema/cli/console.h"
#include "kinema/core/stopwatch.h"

namespace kinema::cli {

/// Progress of a long job: a bar on a terminal's last line; without a terminal one line every half
/// minute.
class Progress {
 public:
  /// Whether to print lines without a terminal; not for jobs that print their own.
  enum class WithoutTerminal : bool { LINES, NOTHING };

  /// `label` is printed before the bar.
  Progress(std::string label, int64_t total,
           WithoutTerminal without_terminal = WithoutTerminal::LINES);

  /// `done` of the total; `note` is printed after the bar. Redraws at most ten times a second.
  void update(int64_t done, const std::string& note = "");
  /// Estimated seconds left at the pace so far; empty before the first progress.
  std::optional<double> seconds_left() const;

  /// The bar as text: `train  [=====>    ]  50%  5/10  0:05 left`, and the note if there is room.
  static std::string bar(const std::string& label, int64_t done, int64_t total,
                         std::optional<double> seconds_left, int columns,
                         const std::string& note = "");

 private:
  std::string label_;
  int64_t total_;
  int64_t first_ = -1;  // `done` when this process started, for the remaining time
  int64_t done_ = 0;
  bool has_lines_;
  Stopwatch since_first_;
  Stopwatch since_line_;
  std::optional<Stopwatch> since_drawn_;
  LiveLine line_;
};

}  // namespace kinema::cli
