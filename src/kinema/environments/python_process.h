#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>

#include "kinema/io/descriptor.h"

namespace kinema::environments {

/// The path of envs.py: next to the program in a build folder, else in the installed program's
/// share/kinema. Throws an Error with the searched folders.
std::filesystem::path server_script();

/// A Python interpreter that runs envs.py, with a socket to it. The destructor ends it and the
/// processes that it started.
class PythonProcess {
 public:
  /// `shared` is the descriptor of the memory that it shares. Throws an Error if the interpreter
  /// cannot be started.
  PythonProcess(const std::string& python, const io::Descriptor& shared);
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;
  ~PythonProcess();

  /// This side of the socket, and the reading end of standard output and error.
  io::Descriptor take_socket() { return std::move(socket_); }
  io::Descriptor take_printed() { return std::move(printed_); }

  /// Kills it, if it has not ended, and says how it ended: `exit status 1`, `signal 11
  /// (Segmentation fault)`.
  std::string end();

 private:
  /// Waits for its end; false after so many milliseconds.
  bool has_ended(int milliseconds);

  pid_t process_ = -1;
  int status_ = 0;
  bool was_killed_ = false;
  io::Descriptor socket_;
  io::Descriptor printed_;
};

}  // namespace kinema::environments
