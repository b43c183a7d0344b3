#include "kinema/cli/stop_signal.h"

#include <cstdint>
#include <ctime>
#include <utility>

namespace kinema::cli {

namespace {

volatile std::sig_atomic_t g_requested = 0;
volatile std::sig_atomic_t g_second_signal = 0;
timespec g_first = {};  // time of the first signal; written before g_requested

volatile std::sig_atomic_t g_first_signal = 0;

/// A signal this soon after the first, in nanoseconds, repeats the same request.
constexpr int64_t kSameRequest = 500'000'000;
/// The same for a second SIGINT, which may have been typed.
constexpr int64_t kSameKey = 50'000'000;

void on_signal(int signal) {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (g_requested == 0) {
    g_first = now;
    g_first_signal = signal;
    g_requested = 1;
    return;
  }
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t since = (now.tv_sec - g_first.tv_sec) * kSecond + (now.tv_nsec - g_first.tv_nsec);
  const bool typed = signal == SIGINT && g_first_signal == SIGINT;
  if (since < (typed ? kSameKey : kSameRequest) || signal == SIGHUP || signal == SIGUSR1) {
    return;
  }
  g_second_signal = signal;
  // From now on the default action: end immediately.
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  sigaction(SIGTERM, &plain, nullptr);
  sigaction(SIGINT, &plain, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  g_requested = 0;
  g_second_signal = 0;
  struct sigaction ours = {};
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART;  // interrupted system calls would break file writes
  sigaction(SIGTERM, &ours, &old_term_);
  sigaction(SIGINT, &ours, &old_int_);
  for (const auto& [signal, old] : {std::pair(SIGHUP, &old_hup_), std::pair(SIGUSR1, &old_usr1_)}) {
    sigaction(signal, nullptr, old);
    if (old->sa_handler != SIG_IGN) {
      sigaction(signal, &ours, nullptr);
    }
  }
}

StopSignal::~StopSignal() {
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGHUP, &old_hup_, nullptr);
  sigaction(SIGUSR1, &old_usr1_, nullptr);
}

bool StopSignal::requested() { return g_requested != 0; }

int StopSignal::second_signal() { return g_second_signal; }

}  // namespace kinema::cli
