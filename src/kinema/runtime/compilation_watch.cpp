#include "kinema/runtime/compilation_watch.h"

#include <mutex>
#include <utility>

namespace kinema::runtime {
namespace {

struct Kept {
  std::mutex mutex;
  CompilationWatch watch;
};

Kept& kept() {
  static Kept here;
  return here;
}

}  // namespace

void set_compilation_watch(CompilationWatch watch) {
  const std::scoped_lock lock(kept().mutex);
  kept().watch = std::move(watch);
}

std::shared_ptr<void> watch_compilation(const std::string& program) {
  CompilationWatch watch;
  {
    const std::scoped_lock lock(kept().mutex);
    watch = kept().watch;
  }
  return watch ? watch(program) : nullptr;
}

}  // namespace kinema::runtime
