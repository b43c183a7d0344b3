#pragma once

#include <string>

#include "kinema/core/error.h"
#include "kinema/pjrt/compile_options.h"
#include "kinema/planning/child_process.h"
#include "kinema/planning/target.h"

namespace kinema::planning {

/// A program needs more memory than a device has, detected during compilation.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& message, double wanted, double available)
      : Error(message), wanted_(wanted), available_(available) {}
  /// Bytes per device of temporaries, and available; 0 if unknown.
  double wanted() const { return wanted_; }
  double available() const { return available_; }

 private:
  double wanted_;
  double available_;
};

/// The compiler could not be used: another process uses it, or a part is missing. The program may
/// be correct.
class NotRequested : public Error {
 public:
  using Error::Error;
};

/// Throws the error of a compiling child that did not finish: an OutOfMemory, a NotRequested or
/// another Error of at most three lines. `error` is the child's message, `log` the compiler's
/// output.
[[noreturn]] void throw_failure(const Target& target, const pjrt::CompileOptions& options,
                                const ChildStatus& status, const std::string& error,
                                const std::string& log);

}  // namespace kinema::planning
