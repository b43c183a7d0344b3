#include "kinema/training/stop_signal.h"

namespace kinema::training {

namespace {

volatile std::sig_atomic_t g_requested = 0;

void on_signal(int /*signal*/) {
  g_requested = 1;
  // From now on these do what they do by default: leave at once.
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  sigaction(SIGTERM, &plain, nullptr);
  sigaction(SIGINT, &plain, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  g_requested = 0;
  struct sigaction ours = {};
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART;  // files being written must not see interrupted calls
  sigaction(SIGTERM, &ours, &old_term_);
  sigaction(SIGINT, &ours, &old_int_);
  sigaction(SIGHUP, nullptr, &old_hup_);
  if (old_hup_.sa_handler != SIG_IGN) {
    sigaction(SIGHUP, &ours, nullptr);
  }
}

StopSignal::~StopSignal() {
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGHUP, &old_hup_, nullptr);
}

bool StopSignal::requested() { return g_requested != 0; }

}  // namespace kinema::training
