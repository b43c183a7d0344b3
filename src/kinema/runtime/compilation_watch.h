#pragma once

#include <functional>
#include <memory>
#include <string>

namespace kinema::runtime {

/// Called with a program's name when its compilation (or its load from the cache) starts; the
/// result is destroyed when that ends. Called from any thread.
using CompilationWatch = std::function<std::shared_ptr<void>(const std::string& program)>;

/// Calls `watch` for each program of this process from now on; empty: none.
void set_compilation_watch(CompilationWatch watch);

/// The same in addition to that watch, and to others, while the result exists.
[[nodiscard]] std::shared_ptr<void> also_watch_compilation(CompilationWatch watch);

/// The results of all watches for a program.
std::shared_ptr<void> watch_compilation(const std::string& program);

}  // namespace kinema::runtime
