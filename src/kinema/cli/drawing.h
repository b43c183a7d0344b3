#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/host_array.h"

/// Plots and images drawn with characters, for a terminal.
namespace kinema::cli {

/// The size of the terminal on stdout; 80 x 24 without one.
struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
TerminalSize terminal_size();

/// Values as a braille curve of `columns` x `rows` characters with the axis on the left, scaled to
/// `range` or to the values. Each dot column is the mean of its values. Values that are not finite
/// are skipped; if no value is finite, the result is empty.
std::vector<std::string> curve_lines(std::span<const double> values, int columns, int rows,
                                     std::optional<std::pair<double, double>> range = {});

/// u8 [h, w, 3] as at most `columns` x `rows` characters; each shows two pixels, one above the
/// other, as half blocks with 24-bit colors (ECMA-48).
std::vector<std::string> picture_lines(const HostArray& image, int columns, int rows);

}  // namespace kinema::cli
