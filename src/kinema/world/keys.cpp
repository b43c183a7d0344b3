#include "kinema/world/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/fingerprint.h"

namespace kinema::world {
namespace {

std::atomic<int> made = 0;

}  // namespace

Keys::Keys(std::shared_ptr<Engine> engine, std::function<std::string()> failed)
    : engine_(std::move(engine)),
      failed_(std::move(failed)),
      prefix_(fmt::format("kinema/{}/", made++)) {}

void Keys::put(const std::string& key, const std::string& value) { engine_->put(full(key), value); }

std::optional<std::string> Keys::find(const std::string& key) { return engine_->get(full(key)); }

std::string Keys::get(const std::string& key, std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  using std::chrono::milliseconds;
  const std::string name = full(key);
  const Clock::time_point start = Clock::now();
  for (milliseconds pause(1);; pause = std::min(pause * 2, milliseconds(100))) {
    if (std::optional<std::string> value = engine_->get(name)) {
      return *std::move(value);
    }
    const std::string failure = failed_ ? failed_() : "";
    check(failure.empty(), "{}", failure);
    const auto gone = Clock::now() - start;
    check(gone < timeout, "[world] no process has put `{}` within {:g} s", key,
          std::chrono::duration<double>(timeout).count());
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, timeout - gone));
  }
}

// PMIx limits names to 511 bytes; names for large groups of devices list them all.
std::string Keys::full(const std::string& key) const {
  constexpr size_t kMost = 400;
  return prefix_ + (key.size() <= kMost
                        ? key
                        : fmt::format("{}...{:016x}", key.substr(0, kMost), fingerprint(key)));
}

}  // namespace kinema::world
