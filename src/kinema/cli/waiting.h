#pragma once

#include <memory>
#include <string>

namespace kinema::cli {

/// Says, while it lives, that something takes long, and for how long it has: on a terminal
/// `compiling the step ... 12 s` on the line that lives; elsewhere, beyond ten seconds, a line when
/// it is long and one with the time when it is over.
class Waiting {
 public:
  /// `what`: `compiling the step`.
  explicit Waiting(std::string what);
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The same for a program that the compiler works at, by the program's name. A stop that is asked
/// for meanwhile is answered with it (Stopping).
std::shared_ptr<void> compiling(const std::string& program);
/// True while a result of `compiling` lives.
bool is_compiling();

}  // namespace kinema::cli
