#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

/// Curves as SVG pictures.
namespace kinema::metrics {

/// A curve of a plot. Points that are not finite are left out.
struct PlotLine {
  std::vector<double> xs;
  std::vector<double> ys;
  std::string colour;
  double width = 2;
  std::string label = {};  // in the plot's legend; empty: not there
};

struct Plot {
  std::string title;
  std::vector<PlotLine> lines;
  /// Up to where y is shown; else up to the highest point.
  std::optional<double> top = {};
  /// The axis of y begins at 0, or below where values do; else at the lowest point.
  bool from_zero = true;
};

/// The plots below each other in so many columns, each with axes of round numbers over steps.
std::string svg(std::span<const Plot> plots, int columns = 1);

/// Colours that people with any sight tell apart (Okabe and Ito), again and again.
const char* plot_colour(size_t i);

}  // namespace kinema::metrics
