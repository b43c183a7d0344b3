#pragma once

#include <termios.h>

#include <optional>

namespace kinema::cli {

/// Keys that are pressed on the terminal on stdin, as they are pressed and without being shown,
/// while this lives. Where stdin is no terminal of this process's, there are none.
class Keys {
 public:
  Keys();
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys();

  /// The next key, or nothing when none came within the time or a signal did.
  std::optional<char> wait(int milliseconds) const;

 private:
  bool terminal_ = false;
  termios before_ = {};
};

}  // namespace kinema::cli
