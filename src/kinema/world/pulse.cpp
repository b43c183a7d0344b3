#include "kinema/world/pulse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

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

/// A heartbeat, in either direction.
struct Pulse::Beat {
  int64_t step = 0;
  int64_t count = 0;
  int32_t is_long = 0;
  int32_t said = 0;  // process 0 has printed the error
  std::array<char, 64> doing{};
  std::array<char, 2000> error{};  // of the sender; from process 0, of the run
  StepTime last;
  int64_t notices = 0;  // number sent so far, including this one
  std::array<char, 1000> notice{};
};

/// The state of another process.
struct Pulse::Peer {
  int64_t rank = 0;
  std::unique_ptr<Pending> receiving;
  std::unique_ptr<Pending> sending;
  Stopwatch heard;     // since its last message
  Stopwatch advanced;  // since its count changed
  Progress progress;
  std::string error;
  int64_t notices = 0;
};

Pulse::Pulse(std::shared_ptr<Engine> engine, std::vector<std::string> names, PulseOptions options)
    : engine_(std::move(engine)),
      names_(std::move(names)),
      options_(options),
      channel_(engine_->open_channel()),
      notices_(names_) {
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

void Pulse::set_timeout(double seconds) {
  const std::lock_guard lock(mutex_);
  grace_ = std::min(grace_, seconds / 4);
  options_.silence = options_.standstill = seconds - grace_;
  options_.beat = std::min(options_.beat, options_.silence / 5);  // some may be late
}

void Pulse::set_overdue(std::function<void()> end) {
  const std::lock_guard lock(mutex_);
  overdue_ = std::move(end);
}

void Pulse::begin(int64_t step, std::string doing, bool is_long) {
  const std::lock_guard lock(mutex_);
  own_advanced_.restart();
  own_ = {.step = step,
          .count = own_.count + 1,
          .is_long = is_long,
          .doing = std::move(doing),
          .last = own_.last};
}

std::shared_ptr<void> Pulse::at_length() {
  const std::lock_guard lock(mutex_);
  return lengths_;
}

void Pulse::finished(const StepTime& step) {
  const std::lock_guard lock(mutex_);
  own_.last = step;
}

void Pulse::notice(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (engine_->rank() == 0) {
    notices_.shown(text);
  } else {
    own_notices_.push_back(text);
  }
}

void Pulse::set_show(std::function<void(const std::string&)> show) {
  const std::lock_guard lock(mutex_);
  show_ = std::move(show);
}

void Pulse::show_notices(double patience) {
  std::vector<std::string> lines;
  std::function<void(const std::string&)> show;
  {
    const std::lock_guard lock(mutex_);
    lines = notices_.due(patience);
    show = show_;
  }
  for (const std::string& line : lines) {
    if (show) {
      show(line);
    }
  }
}

std::string Pulse::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Pulse::set_failure(const std::string& text) {
  if (failure_.empty()) {
    failure_ = text;
    since_failure_.restart();
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
      if (said_ || first_is_lost_ || is_cut_off_) {
        return said_;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void Pulse::said() {
  {
    const std::lock_guard lock(mutex_);
    said_ = true;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

std::vector<std::string> Pulse::errors(double wait_seconds) const {
  // Independent errors arrive within moments; errors that follow from others have the same text.
  const auto have_all = [&] {
    const std::lock_guard held(mutex_);
    return std::ranges::none_of(peers_, [](const Peer& peer) { return peer.error.empty(); });
  };
  for (const Stopwatch watch; !have_all() && watch.seconds() < wait_seconds;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::vector<int64_t>> by_text;
  for (const Peer& peer : peers_) {
    const bool follows = peer.error.find(failure_) != std::string::npos;
    if (!peer.error.empty() && !follows) {
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
  Beat beat{.step = own_.step, .count = own_.count, .is_long = own_is_long() ? 1 : 0};
  beat.last = own_.last;
  put_text(beat.doing, own_.doing);
  put_text(beat.error, own_error_);
  return beat;
}

/// Receives messages.
void Pulse::hear() {
  const bool leads = engine_->rank() == 0;
  for (Peer& peer : peers_) {
    if (peer.rank == engine_->rank()) {
      continue;
    }
    if (peer.receiving && peer.receiving->done()) {
      const Message message = peer.receiving->message();
      Beat beat;
      std::memcpy(&beat, message.bytes().data(), sizeof beat);
      peer.receiving.reset();
      peer.heard.restart();
      if (beat.count != peer.progress.count || beat.is_long != 0) {
        peer.advanced.restart();
      }
      peer.progress = {.step = beat.step,
                       .count = beat.count,
                       .is_long = beat.is_long != 0,
                       .doing = beat.doing.data(),
                       .last = beat.last};
      if (leads && beat.notices > peer.notices) {
        peer.notices = beat.notices;
        notices_.heard(peer.rank, beat.notice.data());
      }
      const std::string error = beat.error.data();
      if (leads && !error.empty()) {
        peer.error = error;
        set_failure(fmt::format("[{}] {}", names_[static_cast<size_t>(peer.rank)], error));
      } else if (!leads) {
        said_ = said_ || beat.said != 0;
        if (!error.empty()) {
          set_failure(error);
        }
      }
    }
    if (!peer.receiving) {
      peer.receiving = engine_->receive(channel_, sizeof(Beat), peer.rank, kTag);
    }
  }
}

void Pulse::tell() {
  const bool leads = engine_->rank() == 0;
  for (Peer& peer : peers_) {
    if (peer.rank == engine_->rank() || (peer.sending && !peer.sending->done())) {
      continue;
    }
    Beat beat = own_beat();
    if (leads) {
      put_text(beat.error, failure_);
      beat.said = said_ ? 1 : 0;
    } else if (!own_notices_.empty()) {
      put_text(beat.notice, own_notices_.front());
      own_notices_.pop_front();
      ++notices_told_;
    }
    beat.notices = notices_told_;
    peer.sending = engine_->send(channel_, Message::copy_of(std::as_bytes(std::span(&beat, 1))),
                                 peer.rank, kTag);
  }
}

/// Errors of this thread must not end the process: they become the run's failure, which waiting
/// threads get.
void Pulse::work() {
  constexpr std::chrono::milliseconds kPause(10);
  while (!ends_) {
    try {
      exchange();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      is_cut_off_ = true;
      set_failure(error.what());
    }
    try {
      end_overdue();
      constexpr double kPatience = 3;  // seconds until process 0 reports the cause itself
      show_notices(kPatience);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      set_failure(error.what());
    }
    std::this_thread::sleep_for(kPause);
  }
}

/// Receives heartbeats, checks timeouts, and sends heartbeats when they are due.
void Pulse::exchange() {
  constexpr double kStopped = 3;  // seconds without an iteration: this process was suspended
  const std::lock_guard lock(mutex_);
  if (is_cut_off_) {
    return;
  }
  if (since_turn_.seconds() > kStopped) {  // the others maybe too: all timeouts start again
    own_advanced_.restart();
    std::ranges::for_each(peers_, [](Peer& peer) {
      peer.heard.restart();
      peer.advanced.restart();
    });
  }
  since_turn_.restart();
  hear();
  judge();
  std::string errors = own_error_ + failure_ + (said_ ? "said" : "");  // sent immediately
  for (const Peer& peer : peers_) {
    errors += peer.error;
  }
  if (!has_told_ || errors != told_ || !own_notices_.empty() ||
      since_beat_.seconds() >= options_.beat) {
    has_told_ = true;
    told_ = std::move(errors);
    since_beat_.restart();
    tell();
  }
}

void Pulse::end_overdue() {
  std::function<void()> end;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty() && since_failure_.seconds() > grace_) {
      end = std::exchange(overdue_, {});
    }
  }
  if (end) {
    end();
  }
}

void Pulse::judge() {
  if (!failure_.empty()) {
    return;
  }
  const auto where = [](const Progress& at) {
    return at.doing.empty() ? std::string("it had just started")
                            : fmt::format("its last word was of step {}, {}", at.step, at.doing);
  };
  for (const Peer& peer : peers_) {
    if (peer.rank != engine_->rank() && peer.heard.seconds() > options_.silence) {
      first_is_lost_ = peer.rank == 0;
      set_failure(fmt::format("{} has not been heard of for {:g} s ({})",
                              names_[static_cast<size_t>(peer.rank)], options_.silence,
                              where(peer.progress)));
      return;
    }
  }
  if (engine_->rank() != 0) {
    return;
  }
  // All processes do the same things in the same order, so that the others wait for the one that
  // started the fewest.
  if (own_is_long()) {
    own_advanced_.restart();
  }
  peers_[0].progress = own_;
  peers_[0].progress.is_long = own_is_long();
  peers_[0].advanced = own_advanced_;
  const auto [slowest, fastest] =
      std::ranges::minmax_element(peers_, {}, [](const Peer& peer) { return peer.progress.count; });
  const Progress& at = slowest->progress;
  if (at.count < fastest->progress.count && at.count > 0 && !at.is_long &&
      slowest->advanced.seconds() > options_.standstill) {
    set_failure(
        fmt::format("{} lives, but has stood still for {:g} s ({}) while others wait for it",
                    names_[static_cast<size_t>(slowest->rank)], options_.standstill, where(at)));
  }
}

}  // namespace kinema::world
