#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/host_array.h"

/// Pictures made of characters, for a terminal.
namespace kinema::cli {

/// The size of the terminal on stdout; 80 x 24 where there is none.
struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
TerminalSize terminal_size();

/// Values as a curve of dots, `columns` x `rows` characters with the axis on the left, which
/// reaches over `range` or their own: the mean of those that share a dot's column. Values that are
/// not finite are left out; without any the result is empty.
std::vector<std::string> curve_lines(std::span<const double> values, int columns, int rows,
                                     std::optional<std::pair<double, double>> range = {});

/// u8 [h, w, 3] as lines of at most `columns` x `rows` characters, each the upper and lower half of
/// it in the colours of two pixels (24 bits, ECMA-48).
std::vector<std::string> picture_lines(const HostArray& image, int columns, int rows);

}  // namespace kinema::cli
