#pragma once

#include <string>
#include <vector>

#include "kinema/cli/drawing.h"
#include "kinema/reports/run_overview.h"

/// The screen of `kinema watch`.
namespace kinema::cli {

/// The screen's lines, fitted to the terminal; `pictures`: show the newest contact sheet in color.
std::vector<std::string> screen_lines(const reports::RunOverview& run, const TerminalSize& size,
                                      bool pictures);

/// Fields side by side if there is room, otherwise on lines of their own; a field wider than the
/// line loses its left part.
std::vector<std::string> flowed(const std::vector<std::string>& fields, int columns);

}  // namespace kinema::cli
