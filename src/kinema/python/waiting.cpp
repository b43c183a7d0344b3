#include "kinema/python/waiting.h"

#include <list>
#include <thread>

namespace kinema::python {
namespace {

struct Threads {
  std::mutex mutex;
  std::list<std::thread> running;
  std::list<std::thread> ended;  // to be joined
};

/// Never destroyed: threads may end after static objects were.
Threads& threads() {
  static auto* const all = new Threads;
  return *all;
}

void join_ended() {
  std::list<std::thread> ended;
  {
    const std::lock_guard lock(threads().mutex);
    ended.swap(threads().ended);
  }
  for (std::thread& each : ended) {
    each.join();
  }
}

}  // namespace

void start_thread(std::function<void()> work) {
  join_ended();
  const std::lock_guard lock(threads().mutex);
  auto& running = threads().running;
  const auto place = running.emplace(running.end());
  try {
    *place = std::thread([work = std::move(work), place]() mutable {
      work();
      work = nullptr;
      const std::lock_guard own(threads().mutex);
      threads().ended.splice(threads().ended.end(), threads().running, place);
    });
  } catch (...) {  // the system allows no more threads
    running.erase(place);
    throw;
  }
}

void finish_all() {
  const nb::gil_scoped_release unlocked;
  while (true) {
    join_ended();
    {
      const std::lock_guard lock(threads().mutex);
      if (threads().running.empty() && threads().ended.empty()) {
        return;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace kinema::python
