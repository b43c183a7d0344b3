#pragma once

#include <string>

#include "kinema/core/error.h"
#include "kinema/pjrt/compile_options.h"
#include "kinema/planning/child_process.h"
#include "kinema/planning/target.h"

namespace kinema::planning {

/// A program that takes more memory than a device has, found while compiling.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& message, double wanted, double available)
      : Error(message), wanted_(wanted), available_(available) {}
  /// Bytes per device of temporaries, and of memory; 0 where the compiler does not say.
  double wanted() const { return wanted_; }
  double available() const { return available_; }

 private:
  double wanted_;
  double available_;
};

/// A compiler that could not be asked: another process holds it, or a part of it is missing. Says
/// nothing of the program.
class NotAsked : public Error {
 public:
  using Error::Error;
};

/// Throws what became of a compiling child that did not finish: an OutOfMemory, a NotAsked or
/// another Error of at most three lines. `error` is what the child said of it, `log` what the
/// compiler printed.
[[noreturn]] void throw_failure(const Target& target, const pjrt::CompileOptions& options,
                                const ChildStatus& status, const std::string& error,
                                const std::string& log);

}  // namespace kinema::planning
