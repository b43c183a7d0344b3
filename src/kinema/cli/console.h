#pragma once

#include <string>

/// Console output: lines, and on a terminal a live line below them. Everything printed during an
/// operation goes through these functions, so that lines and the live line do not mix; thread-safe.
/// A closed terminal is not an error: a run continues without readers.
namespace kinema::cli {

/// Prints nothing from now on: with several processes only one prints.
void mute();

/// A line on stdout.
void print_line(const std::string& text);

/// True when stderr is a terminal.
bool has_terminal();
/// The terminal's width in characters; 80 without a terminal.
int terminal_columns();

/// The last line of the terminal on stderr during an operation. The newest with a text is shown;
/// nothing without a terminal.
class LiveLine {
 public:
  LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;
  /// Clears the line.
  ~LiveLine();

  /// Redraws the line, cut to the terminal's width. An empty text hides it.
  void show(const std::string& text);

 private:
  friend struct Console;
  std::string text_;
};

}  // namespace kinema::cli
