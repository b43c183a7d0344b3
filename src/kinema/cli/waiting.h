#pragma once

#include <memory>
#include <string>

namespace kinema::cli {

/// Shows until it is destroyed that an operation takes long: on a terminal `compiling the step ...
/// 12 s` as the live line; without one, a line after ten seconds and a line with the total time at
/// the end.
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
/// True while a result of `compiling` exists.
bool is_compiling();

}  // namespace kinema::cli
