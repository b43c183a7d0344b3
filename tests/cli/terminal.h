#pragma once

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace kinema::cli_test {

/// `kinema ARGUMENTS...` on its own terminal, as a user starts it.
class Terminal {
 public:
  Terminal(const std::filesystem::path& folder, std::vector<std::string> arguments,
           unsigned short columns = 80, unsigned short rows = 24) {
    winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    std::string program = std::string(KINEMA_BINARY_DIR) + "/kinema";
    std::vector<char*> argv{program.data()};
    for (std::string& argument : arguments) {
      argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    child_ = forkpty(&master_, nullptr, nullptr, &size);
    if (child_ == 0) {
      if (chdir(folder.c_str()) == 0) {
        execv(program.c_str(), argv.data());
      }
      _exit(127);
    }
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    hang_up();
  }

  /// Waits until `text` was printed. Returns false if the program ended or a minute passed before.
  bool shows(const std::string& text) {
    return read_until([&] { return shown_.find(text) != std::string::npos; });
  }
  const std::string& shown() const { return shown_; }
  void type(const std::string& keys) {
    if (write(master_, keys.data(), keys.size()) < 0) {
      perror("pty");
    }
  }
  /// Resizes the window.
  void resize(unsigned short columns, unsigned short rows = 24) {
    const winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(master_, TIOCSWINSZ, &size);
  }
  /// Closes the window.
  void hang_up() {
    if (master_ >= 0) {
      close(master_);
      master_ = -1;
    }
  }
  /// Waits for the end; returns the exit status, or 128 + n for signal n.
  int wait() {
    if (master_ >= 0) {
      read_until([] { return false; });
    }
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_t process() const { return child_; }

 private:
  template <typename Done>
  bool read_until(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!done()) {
      pollfd input{.fd = master_, .events = POLLIN, .revents = 0};
      char buffer[4096];
      const bool waiting = std::chrono::steady_clock::now() < end;
      if (!waiting || (poll(&input, 1, 1000) > 0 && !take(read(master_, buffer, 4096), buffer))) {
        return done();
      }
    }
    return true;
  }
  bool take(ssize_t got, const char* buffer) {
    shown_.append(buffer, got > 0 ? static_cast<size_t>(got) : 0);
    return got > 0;  // reading fails after the program has ended
  }

  pid_t child_ = -1;
  int master_ = -1;
  std::string shown_;
};

}  // namespace kinema::cli_test
