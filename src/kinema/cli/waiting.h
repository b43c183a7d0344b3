#pragma once

#include <memory>
#include <string>

namespace kinema::cli {

/// Shows, while it lives, that an operation takes long: on a terminal `compiling the step ... 12 s`
/// as the live line; without one, after ten seconds, a line when it begins to be long and one with
/// the time at its end.
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

/// The same for the compile of a program of this name. A stop request meanwhile reports that it
/// waits for the compile (Stopping).
std::shared_ptr<void> compiling(const std::string& program);
/// True while a result of `compiling` lives.
bool is_compiling();

}  // namespace kinema::cli
