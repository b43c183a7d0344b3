#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <type_traits>

#include "kinema/world/engine.h"

namespace kinema::world {

/// The purpose of a message.
struct Envelope {
  enum class Kind : int32_t { MESSAGE, PUT, ASK, ANSWER, NO_ANSWER };
  Kind kind = Kind::MESSAGE;
  int32_t channel = 0;
  int32_t tag = 0;
  int32_t key_bytes = 0;  ///< for PUT: the key precedes the value
};

/// A packet on a connection. All processes of a run are of the same build.
struct Packet {
  enum class Kind : int32_t { PART, PROBE, ACKNOWLEDGEMENT };
  static constexpr int32_t kNone = -1;

  struct Header {
    int64_t from = 0;            ///< rank
    uint64_t number = 0;         ///< of the part, consecutive; else of the next part
    uint64_t received = 0;       ///< number of consecutive parts received from the other side
    uint64_t message_bytes = 0;  ///< of the complete message
    Kind kind = Kind::PART;
    int32_t attempt = 0;   ///< how many times the sender has gone back to an earlier part
    int32_t lost = kNone;  ///< the other side's attempt in which a part was lost
    int32_t unused = 0;
    Envelope envelope;
  };

  Header header;
  Message bytes;
};
static_assert(std::has_unique_object_representations_v<Packet::Header>);

/// Messages between this process and one other, over connections that preserve order but may lose
/// their last packets. Messages are divided into numbered parts, which are kept until they are
/// acknowledged. A receiver reports a gap in the numbers, and the sender goes back to the first
/// unacknowledged part. A probe has the number of the next part, so that lost parts at the end are
/// detected too. Does no I/O and reads no clock. Not thread-safe.
class ReliableChannel {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Maximum bytes of a part: a connection must transfer this much for messages to progress. It
  /// fits into a connection's initial window.
  static constexpr size_t kPartBytes = size_t{32} << 10;
  /// Maximum of unacknowledged bytes.
  static constexpr size_t kWindowBytes = size_t{32} << 20;
  static constexpr size_t kWindowParts = 1024;
  /// An acknowledgement waits this long for a packet in which it can travel.
  static constexpr std::chrono::milliseconds kAcknowledgeAfter{20};
  /// A probe is sent if something is unacknowledged for this long.
  static constexpr std::chrono::milliseconds kProbeAfter{200};

  struct Received {
    Envelope envelope;
    Message message;
  };

  explicit ReliableChannel(int64_t own_rank) : own_rank_(own_rank) {}

  /// Queues a message; returns the number of the first part after it.
  uint64_t send(const Envelope& envelope, const Message& message);
  /// True if `next` has returned all parts before this number.
  bool was_sent(uint64_t number) const { return highest_sent_ >= number; }
  /// The packet to send now; nothing if there is none.
  std::optional<Packet> next(Time now);
  /// Processes a packet of the other side; returns the message that it completes. Throws an Error
  /// for an invalid packet.
  std::optional<Received> take(const Packet::Header& header, const Message& bytes, Time now);

  /// When `next` has a packet, if nothing else happens before.
  std::optional<Time> due() const;
  /// True if nothing has to be sent, acknowledged or waited for.
  bool is_idle() const { return parts_.empty() && !acknowledge_at_; }
  /// True if the other side has received everything.
  bool all_acknowledged() const { return parts_.empty(); }
  /// The time since which the other side has acknowledged nothing; nothing if all is acknowledged.
  std::optional<Time> waiting_since() const {
    return handed_ > 0 ? std::optional(progress_) : std::nullopt;
  }
  /// Sends all unacknowledged parts again.
  void go_back();
  /// The number of go_back calls. Each attempt should use a new connection: packets in the previous
  /// one's queues are useless.
  int32_t attempt() const { return attempt_; }

 private:
  struct Part {
    Envelope envelope;
    uint64_t message_bytes = 0;
    Message bytes;
  };
  /// A message whose parts are being received.
  struct Assembly {
    std::shared_ptr<std::byte[]> bytes;
    size_t size = 0;
    size_t filled = 0;
  };

  Packet packet(Packet::Kind kind, uint64_t number);
  void acknowledged(uint64_t count, Time now);
  std::optional<Received> set_share(const Packet::Header& header, const Message& bytes);
  void acknowledge_by(Time time);

  int64_t own_rank_;
  // Sending.
  std::deque<Part> parts_;     // unacknowledged
  uint64_t acknowledged_ = 0;  // number of the first of these
  size_t handed_ = 0;          // how many of these were sent
  size_t bytes_on_the_way_ = 0;
  uint64_t highest_sent_ = 0;
  int32_t attempt_ = 0;
  Time progress_;
  Time probe_at_;
  // Receiving.
  uint64_t received_ = 0;  // number of the next part
  Assembly assembly_;
  size_t parts_to_acknowledge_ = 0;
  size_t bytes_to_acknowledge_ = 0;
  std::optional<Time> acknowledge_at_;
  int32_t lost_ = Packet::kNone;  // to report in the next packet
  int32_t last_reported_lost_ = Packet::kNone;
};

}  // namespace kinema::world
