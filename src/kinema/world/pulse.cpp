#include "kinema/world/pulse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "kinema/core/stopwatch.h"
#include "kinema/world/communicator.h"

namespace kinema::world {
namespace {

constexpr int kTag = 0;

template <size_t N>
void put_text(std::array<char, N>& into, const std::string& text) {
  into.fill('\0');
  std::memcpy(into.data(), text.data(), std::min(text.size(), N - 1));
}

}  // namespace

/// One message, in either direction.
struct Pulse::Beat {
  int64_t step = 0;
  int64_t count = 0;
  int32_t is_long = 0;
  int32_t acknowledges = 0;          // process 0: it has this process's error
  std::array<char, 64> doing{};
  std::array<char, 2000> error{};    // of the sender; of process 0, of the run
};

/// What is known of another process.
struct Pulse::Peer {
  int64_t rank = 0;
  Beat incoming{};
  Beat outgoing{};
  std::unique_ptr<Pending> receiving;
  std::unique_ptr<Pending> sending;
  Stopwatch heard;      // since its last message
  Stopwatch advanced;   // since its count changed
  Progress progress;
  std::string error;
};

Pulse::Pulse(std::shared_ptr<Engine> engine, std::vector<std::string> names, PulseOptions options)
    : engine_(std::move(engine)),
      names_(std::move(names)),
      options_(options),
      channel_(engine_->open_channel()) {
  const bool leads = engine_->rank() == 0;
  peers_.resize(leads ? static_cast<size_t>(engine_->size()) : 1);
  for (size_t i = 0; i < peers_.size(); ++i) {
    peers_[i].rank = static_cast<int64_t>(i);
  }
  thread_ = std::thread([this] { work(); });
}

Pulse::~Pulse() {
  ends_ = true;
  thread_.join();
}

void Pulse::begin(int64_t step, std::string doing, bool is_long) {
  const std::lock_guard lock(mutex_);
  own_ = {.step = step, .count = own_.count + 1, .is_long = is_long, .doing = std::move(doing)};
}

std::string Pulse::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Pulse::set_failure(const std::string& text) {
  if (failure_.empty()) {
    failure_ = text;
  }
}

bool Pulse::fail(const std::string& text, double seconds) {
  {
    const std::lock_guard lock(mutex_);
    own_error_ = text;
    if (engine_->rank() == 0) {
      peers_[0].error = text;
      set_failure(fmt::format("[{}] {}", names_[0], text));
      return true;
    }
  }
  for (const Stopwatch watch; watch.seconds() < seconds;) {
    {
      const std::lock_guard lock(mutex_);
      if (acknowledged_) {
        return true;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::vector<std::string> Pulse::errors(double wait_seconds) const {
  // Errors that all have come within moments; those that follow from others say the same.
  std::this_thread::sleep_for(std::chrono::duration<double>(wait_seconds));
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::vector<int64_t>> by_text;
  for (const Peer& peer : peers_) {
    if (!peer.error.empty() && peer.error != failure_) {
      by_text[peer.error].push_back(peer.rank);
    }
  }
  std::vector<std::string> out;
  for (const auto& [text, ranks] : by_text) {
    const bool all = std::ssize(ranks) == engine_->size();
    out.push_back(all ? text
                  : ranks.size() == 1
                      ? fmt::format("[{}] {}", names_[static_cast<size_t>(ranks.front())], text)
                      : fmt::format("[{}] {}", ranks_text(ranks), text));
  }
  if (out.empty() && !failure_.empty()) {
    out.push_back(failure_);
  }
  return out;
}

std::vector<Progress> Pulse::progress() const {
  const std::lock_guard lock(mutex_);
  std::vector<Progress> out;
  for (const Peer& peer : peers_) {
    out.push_back(peer.progress);
  }
  out[0] = own_;
  return out;
}

Pulse::Beat Pulse::own_beat() {
  Beat beat{.step = own_.step, .count = own_.count, .is_long = own_.is_long ? 1 : 0};
  put_text(beat.doing, own_.doing);
  put_text(beat.error, own_error_);
  return beat;
}

/// Takes messages in, and listens for the next.
void Pulse::hear() {
  const bool leads = engine_->rank() == 0;
  for (Peer& peer : peers_) {
    if (peer.rank == engine_->rank()) {
      continue;
    }
    if (peer.receiving && peer.receiving->done()) {
      peer.receiving.reset();
      peer.heard.restart();
      const Beat& beat = peer.incoming;
      if (beat.count != peer.progress.count) {
        peer.advanced.restart();
      }
      peer.progress = {.step = beat.step,
                       .count = beat.count,
                       .is_long = beat.is_long != 0,
                       .doing = beat.doing.data()};
      const std::string error = beat.error.data();
      if (leads && !error.empty()) {
        peer.error = error;
        set_failure(fmt::format("[{}] {}", names_[static_cast<size_t>(peer.rank)], error));
      } else if (!leads) {
        acknowledged_ = acknowledged_ || beat.acknowledges != 0;
        if (!error.empty()) {
          set_failure(error);
        }
      }
    }
    if (!peer.receiving) {
      peer.receiving = engine_->receive(
          channel_, std::as_writable_bytes(std::span(&peer.incoming, 1)), peer.rank, kTag);
    }
  }
}

void Pulse::tell() {
  const bool leads = engine_->rank() == 0;
  for (Peer& peer : peers_) {
    if (peer.rank == engine_->rank() || (peer.sending && !peer.sending->done())) {
      continue;
    }
    peer.outgoing = own_beat();
    if (leads) {
      put_text(peer.outgoing.error, failure_);
      peer.outgoing.acknowledges = peer.error.empty() ? 0 : 1;
    }
    peer.sending = engine_->send(channel_, std::as_bytes(std::span(&peer.outgoing, 1)), peer.rank,
                                 kTag);
  }
}

void Pulse::work() {
  constexpr std::chrono::milliseconds kPause(10);
  Stopwatch since_beat;
  bool first = true;
  while (!ends_) {
    {
      const std::lock_guard lock(mutex_);
      hear();
      judge();
      std::string errors = own_error_ + failure_;  // told at once
      for (const Peer& peer : peers_) {
        errors += peer.error;
      }
      if (std::exchange(first, false) || errors != told_ || since_beat.seconds() >= options_.beat) {
        told_ = std::move(errors);
        since_beat.restart();
        tell();
      }
    }
    std::this_thread::sleep_for(kPause);
  }
}

void Pulse::judge() {
  if (!failure_.empty()) {
    return;
  }
  const auto where = [](const Progress& at) {
    return at.doing.empty() ? std::string("it had just started")
                            : fmt::format("it was at step {}, {}", at.step, at.doing);
  };
  Peer* slowest = nullptr;
  for (Peer& peer : peers_) {
    if (peer.rank == engine_->rank()) {
      continue;
    }
    if (peer.heard.seconds() > options_.silence) {
      set_failure(fmt::format("{} has not been heard of for {:.0f} s ({})",
                              names_[static_cast<size_t>(peer.rank)], options_.silence,
                              where(peer.progress)));
      return;
    }
    if (slowest == nullptr || peer.progress.count < slowest->progress.count) {
      slowest = &peer;
    }
  }
  if (engine_->rank() != 0 || slowest == nullptr) {
    return;
  }
  // All do the same things in the same order, so that who began the fewest is waited for.
  if (own_.count > slowest->progress.count && slowest->progress.count > 0 &&
      !slowest->progress.is_long && slowest->advanced.seconds() > options_.standstill) {
    set_failure(fmt::format("{} lives, but stands still since {:.0f} s ({}) while others wait for it",
                            names_[static_cast<size_t>(slowest->rank)], options_.standstill,
                            where(slowest->progress)));
  }
}

}  // namespace kinema::world
