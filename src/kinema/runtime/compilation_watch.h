#pragma once

#include <functional>
#include <memory>
#include <string>

namespace kinema::runtime {

/// Called with a program's name when the compiler (or the cache of programs) begins with it; what
/// it returns lives until the program is there, or cannot be made. Called from any thread.
using CompilationWatch = std::function<std::shared_ptr<void>(const std::string& program)>;

/// From now on `watch` is told of each program of this process; empty: nobody is, as at first.
void set_compilation_watch(CompilationWatch watch);

/// The same beside that one, and any number of them, for as long as the result lives.
[[nodiscard]] std::shared_ptr<void> also_watch_compilation(CompilationWatch watch);

/// What the watches return for a program.
std::shared_ptr<void> watch_compilation(const std::string& program);

}  // namespace kinema::runtime
