#include "kinema/cli/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

#include "kinema/cli/commands.h"
#include "kinema/core/printable.h"

namespace kinema::cli {

/// The state of the terminal.
struct Console {
  std::mutex mutex;
  std::vector<const LiveLine*> lines;  // oldest first
  int drawn = 0;                       // characters of the line now on the terminal
  bool muted = false;

  static Console& get() {
    static auto* const console = new Console;  // threads may still print while the process ends
    return *console;
  }

  // Results of fputs are ignored: see the header.
  void erase() {
    if (drawn > 0) {
      // In a terminal that has become narrower, the line is wrapped to rows above the cursor.
      const int rows = (drawn - 1) / terminal_columns();
      std::fputs(rows == 0 ? "\r\x1b[K" : fmt::format("\r\x1b[{}A\x1b[J", rows).c_str(), stderr);
      drawn = 0;
    }
  }

  void draw() {
    if (muted) {
      return;
    }
    const auto shown = std::find_if(lines.rbegin(), lines.rend(),
                                    [](const LiveLine* line) { return !line->text_.empty(); });
    if (shown == lines.rend()) {
      erase();
    } else if (has_terminal()) {
      if (drawn > terminal_columns()) {
        erase();
      }
      const std::string text = cut((*shown)->text_, terminal_columns() - 1);
      std::fputs(("\r" + text + "\x1b[K").c_str(), stderr);
      drawn = characters_of(text);
    }
  }

  /// `text` must be printable.
  void print(std::FILE* to, const std::string& text) {
    const std::scoped_lock lock(mutex);
    if (muted) {
      return;
    }
    erase();
    std::fputs((text + "\n").c_str(), to);
    std::fflush(to);
    draw();
  }

  static bool begins_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  }
  static int characters_of(const std::string& text) {
    return static_cast<int>(std::ranges::count_if(text, begins_character));
  }

  /// At most `characters` UTF-8 characters of the text.
  static std::string cut(const std::string& text, int characters) {
    size_t end = 0;
    for (int count = 0; end < text.size(); ++end) {
      count += begins_character(text[end]) ? 1 : 0;
      if (count > characters) {
        break;
      }
    }
    return text.substr(0, end);
  }
};

void mute() {
  const std::scoped_lock lock(Console::get().mutex);
  Console::get().muted = true;
}

void print_line(const std::string& text) { Console::get().print(stdout, printable(text)); }

void warn(const std::string& line) {
  Console::get().print(stderr, "kinema: " + printable_message(line));
}

bool has_terminal() {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  return terminal;
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

LiveLine::LiveLine() {
  Console& console = Console::get();
  const std::scoped_lock lock(console.mutex);
  console.lines.push_back(this);
}

LiveLine::~LiveLine() {
  Console& console = Console::get();
  const std::scoped_lock lock(console.mutex);
  std::erase(console.lines, this);
  if (!text_.empty()) {
    console.draw();
  }
}

void LiveLine::show(const std::string& text) {
  Console& console = Console::get();
  const std::scoped_lock lock(console.mutex);
  text_ = printable(text);
  console.draw();
}

}  // namespace kinema::cli
