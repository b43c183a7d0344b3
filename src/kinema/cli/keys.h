#pragma once

#include <termios.h>

#include <optional>

namespace kinema::cli {

/// Reads single keys from the terminal on stdin, without echo, until it is destroyed. Returns no
/// keys if stdin is not a terminal, or the process runs in its background.
class Keys {
 public:
  Keys();
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys();

  /// The next key; empty after a timeout or a signal.
  std::optional<char> wait(int milliseconds) const;

 private:
  bool terminal_ = false;
  termios before_ = {};
};

}  // namespace kinema::cli
