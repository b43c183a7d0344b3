#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kinema/cli/console.h"
#include "kinema/core/stopwatch.h"

namespace kinema::cli {

/// How far a long job is: a bar on the last line of a terminal, elsewhere a line each half minute.
class Progress {
 public:
  /// Whether there are lines where there is no terminal; not for jobs that have their own.
  enum class Elsewhere : bool { LINES, NOTHING };

  /// `label` stands before the bar.
  Progress(std::string label, int64_t total, Elsewhere elsewhere = Elsewhere::LINES);

  /// `done` of the total, and what else is to be seen behind it; the bar is drawn again at most ten
  /// times a second.
  void update(int64_t done, const std::string& note = "");
  /// Seconds that the rest takes at the pace so far; nothing before there is one.
  std::optional<double> seconds_left() const;

  /// The bar as text: `train  [=====>    ]  50%  5/10  0:05 left`, and the note where there is
  /// room.
  static std::string bar(const std::string& label, int64_t done, int64_t total,
                         std::optional<double> seconds_left, int columns,
                         const std::string& note = "");

 private:
  std::string label_;
  int64_t total_;
  int64_t first_ = -1;  // where this process began, for the time left
  int64_t done_ = 0;
  bool has_lines_;
  Stopwatch since_first_;
  Stopwatch since_line_;
  std::optional<Stopwatch> since_drawn_;
  LiveLine line_;
};

}  // namespace kinema::cli
