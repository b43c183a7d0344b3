#pragma once

#include <string>

/// What people see: lines, and on a terminal one line below them that lives. All that is printed
/// while something goes on comes through here, so that neither tears the other; for several
/// threads. A terminal that is gone is no error: a run does not stop because nobody reads.
namespace kinema::cli {

/// From now on nothing is printed: of several processes one does.
void mute();

/// A line on stdout.
void print_line(const std::string& text);

/// True when people read stderr on a terminal.
bool has_terminal();
/// Characters of a line on it; 80 where there is none.
int terminal_columns();

/// The last line of the terminal on stderr while something goes on. Of several that have a text the
/// newest is shown; where there is no terminal, none.
class LiveLine {
 public:
  LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;
  /// Clears it.
  ~LiveLine();

  /// Draws it anew, cut where the terminal ends. An empty text hides it.
  void show(const std::string& text);

 private:
  friend struct Console;
  std::string text_;
};

}  // namespace kinema::cli
