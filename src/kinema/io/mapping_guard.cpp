#include "kinema/io/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

#include "kinema/io/mapped_file.h"

namespace kinema::io::mapping_guard {
namespace {

/// One watched mapping; read by a signal handler, so it has atomics only. `begin` is written last
/// when a slot is taken and first when it is released.
struct Slot {
  std::atomic<uintptr_t> begin = 0;
  std::atomic<uintptr_t> end = 0;
  std::atomic<bool> damaged = false;
};

constexpr size_t kSlots = 4096;
std::array<Slot, kSlots> slots;
// One past the highest slot ever used: the range to search.
std::atomic<size_t> used = 0;
std::mutex taking;
struct sigaction before;

Slot* slot_of(uintptr_t address) {
  const size_t count = used.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    const uintptr_t begin = slots[i].begin.load(std::memory_order_acquire);
    if (begin != 0 && address >= begin && address < slots[i].end.load(std::memory_order_acquire)) {
      return &slots[i];
    }
  }
  return nullptr;
}

/// Maps zero pages over the whole mapping: mmap is a plain system call, safe in a handler.
bool cover(const Slot& slot) {
  const uintptr_t begin = slot.begin.load();
  const size_t size = slot.end.load() - begin;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address of our own mapping
  void* const at = reinterpret_cast<void*>(begin);
  return ::mmap(at, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int kept = errno;
  Slot* const slot = slot_of(reinterpret_cast<uintptr_t>(info->si_addr));
  if (slot != nullptr && cover(*slot)) {
    slot->damaged.store(true, std::memory_order_release);
    errno = kept;
    return;
  }
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(signal, info, context);
    return;
  }
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
    return;
  }
  // Returning repeats the access, which now has the default effect.
  ::sigaction(SIGBUS, &before, nullptr);
}

std::atomic<bool> installed = false;

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &before);
    installed = true;
  });
}

}  // namespace

int add(const std::byte* data, size_t size) {
  if (!installed) {
    return -1;
  }
  const std::scoped_lock lock(taking);
  for (size_t i = 0; i < kSlots; ++i) {
    if (slots[i].begin.load() == 0) {
      slots[i].damaged.store(false);
      const auto begin = reinterpret_cast<uintptr_t>(data);
      slots[i].end.store(begin + size, std::memory_order_release);
      slots[i].begin.store(begin, std::memory_order_release);
      if (i + 1 > used.load()) {
        used.store(i + 1, std::memory_order_release);
      }
      return static_cast<int>(i);
    }
  }
  return -1;
}

void remove(int slot) {
  if (slot >= 0) {
    slots[static_cast<size_t>(slot)].begin.store(0, std::memory_order_release);
  }
}

bool is_damaged(const std::byte* data) {
  const Slot* const slot = slot_of(reinterpret_cast<uintptr_t>(data));
  return slot != nullptr && slot->damaged.load(std::memory_order_acquire);
}

}  // namespace kinema::io::mapping_guard

namespace kinema::io {

void guard_mappings() { mapping_guard::install(); }

}  // namespace kinema::io
