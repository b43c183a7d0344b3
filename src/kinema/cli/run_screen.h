#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kinema/cli/drawing.h"
#include "kinema/io/json.h"
#include "kinema/training/metrics_reader.h"

/// What `kinema watch` shows of a run.
namespace kinema::cli {

/// Where a run's files are, from what its folder holds now.
struct RunFiles {
  std::filesystem::path run;
  std::filesystem::path metrics;
  std::filesystem::path checkpoints;
  int64_t max_steps = 0;  // 0: not known

  /// Throws an Error where `run` is no folder, or its config.yml no configuration.
  explicit RunFiles(std::filesystem::path run);
};

/// A run as it is now.
struct RunScreen {
  enum class State : uint8_t { RUNNING, STOPPED, DONE };

  RunFiles files;
  std::vector<training::MetricsRow> rows;  // at least one
  bool is_running = true;                  // a process works at it, as far as is known

  State state() const;
  int64_t steps() const { return rows.back().step + 1; }
  /// Lines that fit into a terminal; `pictures`: the newest contact sheet in colours.
  std::vector<std::string> lines(const TerminalSize& size, bool pictures) const;
  io::Json json() const;
};

/// Fields beside each other where there is room, else below; one that is wider than a line is cut
/// on its left.
std::vector<std::string> flowed(const std::vector<std::string>& fields, int columns);

}  // namespace kinema::cli
