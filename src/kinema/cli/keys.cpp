#include "kinema/cli/keys.h"

#include <poll.h>
#include <unistd.h>

namespace kinema::cli {

Keys::Keys() {
  // Changing the terminal's settings would stop a background job.
  terminal_ = isatty(STDIN_FILENO) == 1 && tcgetpgrp(STDIN_FILENO) == getpgrp() &&
              tcgetattr(STDIN_FILENO, &before_) == 0;
  if (terminal_) {
    termios now = before_;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Ctrl-C still sends its signal
    tcsetattr(STDIN_FILENO, TCSANOW, &now);
  }
}

Keys::~Keys() {
  if (terminal_) {
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
}

std::optional<char> Keys::wait(int milliseconds) const {
  pollfd input{.fd = terminal_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0};
  char key = 0;
  return poll(&input, 1, milliseconds) > 0 && read(STDIN_FILENO, &key, 1) == 1 ? std::optional(key)
                                                                               : std::nullopt;
}

}  // namespace kinema::cli
