#include "kinema/world/heartbeat.h"

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
struct Heartbeat::HeartbeatMessage {
  int64_t step = 0;
  int64_t count = 0;
  int32_t is_long = 0;
  int32_t is_printed = 0;  // process 0 has printed the error
  std::array<char, 64> doing{};
  std::array<char, 2000> error{};  // of the sender; from process 0, of the run
  StepTime last;
  int64_t notices = 0;  // number sent so far, including this one
  std::array<char, 1000> notice{};
};

/// The state of another process.
struct Heartbeat::Peer {
  int64_t rank = 0;
  std::unique_ptr<Pending> receiving;
  std::unique_ptr<Pending> sending;
  Stopwatch last_received;  // since its last message
  Stopwatch last_advanced;  // since its count changed
  Progress progress;
  std::string error;
  int64_t notices = 0;
};

Heartbeat::Heartbeat(std::shared_ptr<Engine> engine, std::vector<std::string> names,
                     HeartbeatOptions options)
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

Heartbeat::~Heartbeat() {
  ends_ = true;
  thread_.join();
}

void Heartbeat::set_timeout(double seconds) {
  const std::lock_guard lock(mutex_);
  grace_ = std::min(grace_, seconds / 4);
  options_.timeout = options_.hang_timeout = seconds - grace_;
  options_.interval = std::min(options_.interval, options_.timeout / 5);  // some may be late
}

void Heartbeat::set_overdue(std::function<void()> end) {
  const std::lock_guard lock(mutex_);
  overdue_ = std::move(end);
}

void Heartbeat::begin(int64_t step, std::string doing, bool is_long) {
  const std::lock_guard lock(mutex_);
  own_advanced_.restart();
  own_ = {.step = step,
          .count = own_.count + 1,
          .is_long = is_long,
          .doing = std::move(doing),
          .last = own_.last};
}

std::shared_ptr<void> Heartbeat::long_operation() {
  const std::lock_guard lock(mutex_);
  return long_operations_;
}

void Heartbeat::finished(const StepTime& step) {
  const std::lock_guard lock(mutex_);
  own_.last = step;
}

void Heartbeat::notice(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (engine_->rank() == 0) {
    notices_.shown(text);
  } else {
    own_notices_.push_back(text);
  }
}

void Heartbeat::set_show(std::function<void(const std::string&)> show) {
  const std::lock_guard lock(mutex_);
  show_ = std::move(show);
}

void Heartbeat::show_notices(double min_age) {
  std::vector<std::string> lines;
  std::function<void(const std::string&)> show;
  {
    const std::lock_guard lock(mutex_);
    lines = notices_.due(min_age);
    show = show_;
  }
  for (const std::string& line : lines) {
    if (show) {
      show(line);
    }
  }
}

std::string Heartbeat::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Heartbeat::set_failure(const std::string& text) {
  if (failure_.empty()) {
    failure_ = text;
    since_failure_.restart();
  }
}

bool Heartbeat::fail(const std::string& text, double seconds) {
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
      if (is_printed_ || lost_process_0_ || is_disconnected_) {
        return is_printed_;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void Heartbeat::set_printed() {
  {
    const std::lock_guard lock(mutex_);
    is_printed_ = true;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

std::vector<std::string> Heartbeat::errors(double wait_seconds) const {
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

std::vector<Progress> Heartbeat::progress() const {
  const std::lock_guard lock(mutex_);
  std::vector<Progress> out;
  for (const Peer& peer : peers_) {
    out.push_back(peer.progress);
  }
  out[0] = own_;
  return out;
}

Heartbeat::HeartbeatMessage Heartbeat::own_message() {
  HeartbeatMessage beat{
      .step = own_.step, .count = own_.count, .is_long = in_long_operation() ? 1 : 0};
  beat.last = own_.last;
  put_text(beat.doing, own_.doing);
  put_text(beat.error, own_error_);
  return beat;
}

/// Receives messages.
void Heartbeat::receive() {
  const bool leads = engine_->rank() == 0;
  for (Peer& peer : peers_) {
    if (peer.rank == engine_->rank()) {
      continue;
    }
    if (peer.receiving && peer.receiving->done()) {
      const Message message = peer.receiving->message();
      HeartbeatMessage beat;
      std::memcpy(&beat, message.bytes().data(), sizeof beat);
      peer.receiving.reset();
      peer.last_received.restart();
      if (beat.count != peer.progress.count || beat.is_long != 0) {
        peer.last_advanced.restart();
      }
      peer.progress = {.step = beat.step,
                       .count = beat.count,
                       .is_long = beat.is_long != 0,
                       .doing = beat.doing.data(),
                       .last = beat.last};
      if (leads && beat.notices > peer.notices) {
        peer.notices = beat.notices;
        notices_.received(peer.rank, beat.notice.data());
      }
      const std::string error = beat.error.data();
      if (leads && !error.empty()) {
        peer.error = error;
        set_failure(fmt::format("[{}] {}", names_[static_cast<size_t>(peer.rank)], error));
      } else if (!leads) {
        is_printed_ = is_printed_ || beat.is_printed != 0;
        if (!error.empty()) {
          set_failure(error);
        }
      }
    }
    if (!peer.receiving) {
      peer.receiving = engine_->receive(channel_, sizeof(HeartbeatMessage), peer.rank, kTag);
    }
  }
}

void Heartbeat::send() {
  const bool leads = engine_->rank() == 0;
  for (Peer& peer : peers_) {
    if (peer.rank == engine_->rank() || (peer.sending && !peer.sending->done())) {
      continue;
    }
    HeartbeatMessage beat = own_message();
    if (leads) {
      put_text(beat.error, failure_);
      beat.is_printed = is_printed_ ? 1 : 0;
    } else if (!own_notices_.empty()) {
      put_text(beat.notice, own_notices_.front());
      own_notices_.pop_front();
      ++notices_sent_;
    }
    beat.notices = notices_sent_;
    peer.sending = engine_->send(channel_, Message::copy_of(std::as_bytes(std::span(&beat, 1))),
                                 peer.rank, kTag);
  }
}

/// Errors of this thread must not end the process: they become the run's failure, which waiting
/// threads get.
void Heartbeat::work() {
  constexpr std::chrono::milliseconds kPause(10);
  while (!ends_) {
    try {
      exchange();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      is_disconnected_ = true;
      set_failure(error.what());
    }
    try {
      end_overdue();
      constexpr double kMinAge = 3;  // seconds until process 0 reports the cause itself
      show_notices(kMinAge);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      set_failure(error.what());
    }
    std::this_thread::sleep_for(kPause);
  }
}

/// Receives heartbeats, checks timeouts, and sends heartbeats when they are due.
void Heartbeat::exchange() {
  constexpr double kStopped = 3;  // seconds without an iteration: this process was suspended
  const std::lock_guard lock(mutex_);
  if (is_disconnected_) {
    return;
  }
  if (since_exchange_.seconds() > kStopped) {  // the others maybe too: all timeouts start again
    own_advanced_.restart();
    std::ranges::for_each(peers_, [](Peer& peer) {
      peer.last_received.restart();
      peer.last_advanced.restart();
    });
  }
  since_exchange_.restart();
  receive();
  check_timeouts();
  std::string errors = own_error_ + failure_ + (is_printed_ ? "printed" : "");  // sent immediately
  for (const Peer& peer : peers_) {
    errors += peer.error;
  }
  if (!has_sent_ || errors != sent_errors_ || !own_notices_.empty() ||
      since_sent_.seconds() >= options_.interval) {
    has_sent_ = true;
    sent_errors_ = std::move(errors);
    since_sent_.restart();
    send();
  }
}

void Heartbeat::end_overdue() {
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

void Heartbeat::check_timeouts() {
  if (!failure_.empty()) {
    return;
  }
  const auto where = [](const Progress& at) {
    return at.doing.empty() ? std::string("it had just started")
                            : fmt::format("its last report was of step {}, {}", at.step, at.doing);
  };
  for (const Peer& peer : peers_) {
    if (peer.rank != engine_->rank() && peer.last_received.seconds() > options_.timeout) {
      lost_process_0_ = peer.rank == 0;
      set_failure(fmt::format(
          "[world] {} has sent no heartbeat for {:g} s ({}), so this process "
          "ends too; the same command resumes the run",
          names_[static_cast<size_t>(peer.rank)], options_.timeout, where(peer.progress)));
      return;
    }
  }
  if (engine_->rank() != 0) {
    return;
  }
  // All processes do the same things in the same order, so that the others wait for the one that
  // started the fewest.
  if (in_long_operation()) {
    own_advanced_.restart();
  }
  peers_[0].progress = own_;
  peers_[0].progress.is_long = in_long_operation();
  peers_[0].last_advanced = own_advanced_;
  const auto [slowest, fastest] =
      std::ranges::minmax_element(peers_, {}, [](const Peer& peer) { return peer.progress.count; });
  const Progress& at = slowest->progress;
  if (at.count < fastest->progress.count && at.count > 0 && !at.is_long &&
      slowest->last_advanced.seconds() > options_.hang_timeout) {
    set_failure(fmt::format("{} hangs, without progress for {:g} s ({}) while others wait for it",
                            names_[static_cast<size_t>(slowest->rank)], options_.hang_timeout,
                            where(at)));
  }
}

}  // namespace kinema::world
