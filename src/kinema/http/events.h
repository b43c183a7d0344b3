#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace kinema::http {

/// Server-sent events (https://html.spec.whatwg.org, 9.2) for any number of clients. The last ones
/// are kept in a ring, from which each client reads at its own pace: one that reads slowly costs no
/// memory, and one that comes back gets what it missed. Safe to use from several threads.
class EventStream {
 public:
  /// `first`: the number before that of the first event. If it grows from one start of a server to
  /// the next (the time in milliseconds), a client's number of an earlier start is known to be old.
  explicit EventStream(uint64_t first = 0, size_t kept = 4096);
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  /// Adds an event and returns its number. `data` may have several lines.
  uint64_t publish(std::string_view name, std::string_view data);
  /// No events follow: clients are disconnected when they have read all.
  void end();
  /// The number of the last event.
  uint64_t last() const;

  /// Events as they are sent.
  struct Piece {
    std::string text;
    uint64_t last = 0;   // pass it to the next call
    bool ended = false;  // nothing will follow
  };
  /// The events after number `after`, as many as fit `bytes` and at least one. If `after` is not
  /// one of the ring, because it is too old or of another server, an event `reset` stands for what
  /// was missed.
  Piece read(uint64_t after, size_t bytes) const;

  /// `wake` is called after each event, from the publishing thread, until `forget` returns. It must
  /// not call this object.
  uint64_t listen(std::function<void()> wake);
  void forget(uint64_t listener);

 private:
  void wake_all();

  const size_t kept_;
  mutable std::mutex mutex_;
  std::deque<std::string> events_;  // the last is number last_
  uint64_t last_;
  bool ended_ = false;
  std::mutex listeners_mutex_;
  uint64_t next_listener_ = 0;
  std::map<uint64_t, std::function<void()>> listeners_;
};

/// An event as it is sent: `id:`, `event:`, a `data:` for each line. Without an id for 0, without a
/// name for an empty one.
std::string event_text(uint64_t id, std::string_view name, std::string_view data);

/// The number in a `Last-Event-ID` field or a query's `after`; 0 for anything but digits.
uint64_t read_event_id(std::string_view text);

}  // namespace kinema::http
