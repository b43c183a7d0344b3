#include "kinema/core/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::trace {
namespace {

std::atomic<bool> recording = false;

struct State {
  std::mutex mutex;
  Recording now;
  std::map<int64_t, std::string> labels;

  uint64_t line(const std::string& name) {
    const auto found = std::ranges::find(now.threads, name);
    if (found != now.threads.end()) {
      return static_cast<uint64_t>(found - now.threads.begin());
    }
    now.threads.push_back(name);
    return now.threads.size() - 1;
  }
};

State& state() {
  static State* one = new State;  // threads may end after main does
  return *one;
}

std::string& thread_name() {
  static std::atomic<int> count = 0;
  thread_local std::string name = fmt::format("thread {}", count++);
  return name;
}

}  // namespace

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool is_recording() { return recording.load(std::memory_order_relaxed); }

void start() {
  const std::lock_guard lock(state().mutex);
  check(!is_recording(), "[trace] a recording is already running");
  state().now = {.begin_ns = now_ns()};
  recording = true;
}

Recording stop() {
  const std::lock_guard lock(state().mutex);
  recording = false;
  Recording out = std::exchange(state().now, {});
  out.end_ns = now_ns();
  return out;
}

void name_thread(std::string_view name) { thread_name() = name; }

void add(std::string_view line, std::string_view name, int64_t begin_ns, int64_t end_ns,
         int64_t step) {
  const std::lock_guard lock(state().mutex);
  if (is_recording() && begin_ns >= state().now.begin_ns) {
    state().now.spans.push_back({.name = std::string(name),
                                 .thread = state().line(std::string(line)),
                                 .begin_ns = begin_ns,
                                 .end_ns = end_ns,
                                 .step = step});
  }
}

Scope::Scope(std::string_view name, int64_t step) : step_(step) {
  if (is_recording()) {
    name_ = name;
    begin_ns_ = now_ns();
  }
}

Label label(std::string_view name) {
  // FNV-1a without the sign bit.
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  const Label out{.number = static_cast<int64_t>(hash >> 1)};
  const std::lock_guard lock(state().mutex);
  state().labels.emplace(out.number, name);
  return out;
}

Scope::Scope(Label label) {
  if (is_recording()) {
    {
      const std::lock_guard lock(state().mutex);
      const auto found = state().labels.find(label.number);
      name_ = found == state().labels.end() ? "?" : found->second;
    }
    begin_ns_ = now_ns();
  }
}

Scope::~Scope() {
  if (begin_ns_ != 0) {
    add(thread_name(), name_, begin_ns_, now_ns(), step_);
  }
}

}  // namespace kinema::trace
