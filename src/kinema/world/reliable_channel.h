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

/// What a message is for, beside its bytes.
struct Envelope {
  enum class Kind : int32_t { MESSAGE, PUT, ASK, ANSWER, NO_ANSWER };
  Kind kind = Kind::MESSAGE;
  int32_t channel = 0;
  int32_t tag = 0;
  int32_t key_bytes = 0;  ///< of PUT: the key comes first
};

/// What goes over a connection. Processes of one run are of one build.
struct Packet {
  enum class Kind : int32_t { PART, PROBE, ACKNOWLEDGEMENT };
  static constexpr int32_t kNone = -1;

  struct Header {
    int64_t from = 0;            ///< rank
    uint64_t number = 0;         ///< of the part, in a row; else of the next part
    uint64_t received = 0;       ///< parts of the other side that have arrived, in a row
    uint64_t message_bytes = 0;  ///< of the whole message
    Kind kind = Kind::PART;
    int32_t attempt = 0;   ///< how often the sender has gone back to an earlier part
    int32_t lost = kNone;  ///< the attempt of the other side in which a part was lost
    int32_t unused = 0;
    Envelope envelope;
  };

  Header header;
  Message bytes;
};
static_assert(std::has_unique_object_representations_v<Packet::Header>);

/// Messages between this process and one other, over connections that lose packets at their end and
/// keep the order of those that they carry. Messages are cut into numbered parts. A part is kept
/// until the other side has acknowledged it. A side that sees a gap in the numbers says so, and the
/// sender goes back to the first part that is not acknowledged. A probe has the number of the next
/// part, so that parts at the end of what was sent are missed too. Does no input or output, and
/// reads no clock. Not for several threads.
class ReliableChannel {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Bytes of the largest part: what one connection must carry for messages to advance. One fits
  /// into the window with which a connection begins.
  static constexpr size_t kPartBytes = size_t{32} << 10;
  /// What is on the way and not acknowledged, at most.
  static constexpr size_t kWindowBytes = size_t{32} << 20;
  static constexpr size_t kWindowParts = 1024;
  /// An acknowledgement waits for so long for a packet to travel with.
  static constexpr std::chrono::milliseconds kAcknowledgeAfter{20};
  /// A probe follows what was not acknowledged for so long.
  static constexpr std::chrono::milliseconds kProbeAfter{200};

  struct Received {
    Envelope envelope;
    Message message;
  };

  explicit ReliableChannel(int64_t own_rank) : own_rank_(own_rank) {}

  /// Queues a message; the number of the first part behind it.
  uint64_t send(const Envelope& envelope, const Message& message);
  /// Whether all parts before this number have been given out by `next`.
  bool handed_over(uint64_t number) const { return most_handed_ >= number; }
  /// The packet to put on the connection now; nothing while there is none.
  std::optional<Packet> next(Time now);
  /// Takes a packet of the other side; the message that it completes. Throws an Error for a packet
  /// that no sender makes.
  std::optional<Received> take(const Packet::Header& header, const Message& bytes, Time now);

  /// When `next` has a packet, where nothing else happens before.
  std::optional<Time> due() const;
  /// Nothing is to be sent, acknowledged or waited for.
  bool is_idle() const { return parts_.empty() && !acknowledge_at_; }
  /// Whether the other side has everything.
  bool all_acknowledged() const { return parts_.empty(); }
  /// Since when the other side has acknowledged nothing of what it was sent; nothing while there is
  /// nothing to acknowledge.
  std::optional<Time> waiting_since() const {
    return handed_ > 0 ? std::optional(progress_) : std::nullopt;
  }
  /// What is not acknowledged is sent again.
  void go_back();
  /// How often it has been. Each attempt is best given a connection of its own: what still waits in
  /// the last one's queues is of no use.
  int32_t attempt() const { return attempt_; }

 private:
  struct Part {
    Envelope envelope;
    uint64_t message_bytes = 0;
    Message bytes;
  };
  /// A message of which parts have come.
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
  std::deque<Part> parts_;     // not acknowledged
  uint64_t acknowledged_ = 0;  // number of the first of them
  size_t handed_ = 0;          // of them on the way
  size_t bytes_on_the_way_ = 0;
  uint64_t most_handed_ = 0;
  int32_t attempt_ = 0;
  Time progress_;
  Time probe_at_;
  // Receiving.
  uint64_t received_ = 0;  // number of the next part
  Assembly assembly_;
  size_t parts_to_acknowledge_ = 0;
  size_t bytes_to_acknowledge_ = 0;
  std::optional<Time> acknowledge_at_;
  int32_t lost_ = Packet::kNone;  // to be said with the next packet
  int32_t last_said_lost_ = Packet::kNone;
};

}  // namespace kinema::world
