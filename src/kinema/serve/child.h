#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kinema/io/descriptor.h"

namespace kinema::serve {

/// How a child process is started.
struct ChildStart {
  std::vector<std::string> command;  // the program's path and its arguments
  std::filesystem::path log;         // gets what it prints, behind what is there
  /// Gets what it prints to standard output instead; empty: the log does.
  std::filesystem::path out = {};
  std::filesystem::path folder = {};  // its working directory; empty: this process's
  /// True: it ends with the thread that starts it. False: it has a session of its own, and lives on
  /// when this process ends.
  bool ends_with_parent = true;
  /// A socket that it gets as descriptor 3.
  const io::Descriptor* socket = nullptr;
};

/// Starts it and returns its process id. It inherits no other descriptors. Throws an Error if the
/// system makes no process; a program that cannot be executed ends with status 127.
pid_t start_child(const ChildStart& start);

/// A child process that ends with this object.
class Child {
 public:
  explicit Child(const ChildStart& start) : pid_(start_child(start)) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  /// Kills it.
  ~Child();

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// How it ended, in words, or nothing while it runs: `exit status 1`, `signal 9`.
  std::optional<std::string> ended();

 private:
  pid_t pid_;
  std::optional<std::string> ended_;
};

}  // namespace kinema::serve
