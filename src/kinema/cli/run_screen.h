#pragma once

#include <string>
#include <vector>

#include "kinema/cli/drawing.h"
#include "kinema/reports/run_overview.h"

/// What `kinema watch` shows of a run.
namespace kinema::cli {

/// Lines that fit into a terminal; `pictures`: the newest contact sheet in colours.
std::vector<std::string> screen_lines(const reports::RunOverview& run, const TerminalSize& size,
                                      bool pictures);

/// Fields beside each other where there is room, else below; one that is wider than a line is cut
/// on its left.
std::vector<std::string> flowed(const std::vector<std::string>& fields, int columns);

}  // namespace kinema::cli
