#include "kinema/runtime/compilation_watch.h"

#include <list>
#include <mutex>
#include <utility>
#include <vector>

namespace kinema::runtime {
namespace {

struct Kept {
  std::mutex mutex;
  CompilationWatch watch;
  std::list<CompilationWatch> more;
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

std::shared_ptr<void> also_watch_compilation(CompilationWatch watch) {
  const std::scoped_lock lock(kept().mutex);
  kept().more.push_front(std::move(watch));
  return {nullptr, [place = kept().more.begin()](void*) {
            const std::scoped_lock again(kept().mutex);
            kept().more.erase(place);
          }};
}

std::shared_ptr<void> watch_compilation(const std::string& program) {
  std::vector<CompilationWatch> all;
  {
    const std::scoped_lock lock(kept().mutex);
    all.assign(kept().more.begin(), kept().more.end());
    if (kept().watch) {
      all.push_back(kept().watch);
    }
  }
  const auto out = std::make_shared<std::vector<std::shared_ptr<void>>>();
  for (const CompilationWatch& each : all) {
    out->push_back(each(program));
  }
  return out;
}

}  // namespace kinema::runtime
