#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

/// Curves as SVG pictures.
namespace kinema::metrics {

/// A curve of a plot. Non-finite points are skipped.
struct PlotLine {
  std::vector<double> xs;
  std::vector<double> ys;
  std::string colour;
  double width = 2;
  std::string label = {};  // in the plot's legend; empty: none
};

struct Plot {
  std::string title;
  std::vector<PlotLine> lines;
  /// Upper end of the y axis; if absent, the highest point.
  std::optional<double> top = {};
  /// The y axis starts at 0 or the lowest value, whichever is lower; if false, at the lowest value.
  bool from_zero = true;
};

/// Plots in a grid with `columns` columns, each with round numbers on its axes over steps.
std::string svg(std::span<const Plot> plots, int columns = 1);

/// Colours that are distinct for all kinds of colour vision (Okabe and Ito), repeated cyclically.
const char* plot_colour(size_t i);

}  // namespace kinema::metrics
