#include "kinema/world/reliable_channel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kinema/core/error.h"

namespace kinema::world {

uint64_t ReliableChannel::send(const Envelope& envelope, const Message& message) {
  size_t offset = 0;
  do {
    const size_t size = std::min(message.size() - offset, kPartBytes);
    parts_.push_back({.envelope = envelope,
                      .message_bytes = message.size(),
                      .bytes = message.part(offset, size)});
    offset += size;
  } while (offset < message.size());
  return acknowledged_ + parts_.size();
}

Packet ReliableChannel::packet(Packet::Kind kind, uint64_t number) {
  acknowledge_at_.reset();
  parts_to_acknowledge_ = bytes_to_acknowledge_ = 0;
  return {.header = {.from = own_rank_,
                     .number = number,
                     .received = received_,
                     .kind = kind,
                     .attempt = attempt_,
                     .lost = std::exchange(lost_, Packet::kNone),
                     .envelope = {}},
          .bytes = {}};
}

std::optional<Packet> ReliableChannel::next(Time now) {
  if (handed_ < parts_.size() && handed_ < kWindowParts) {
    const Part& part = parts_[handed_];
    if (handed_ == 0 || bytes_on_the_way_ + part.bytes.size() <= kWindowBytes) {
      Packet out = packet(Packet::Kind::PART, acknowledged_ + handed_);
      out.header.message_bytes = part.message_bytes;
      out.header.envelope = part.envelope;
      out.bytes = part.bytes;
      if (handed_ == 0) {
        progress_ = now;
      }
      bytes_on_the_way_ += part.bytes.size();
      highest_sent_ = std::max(highest_sent_, acknowledged_ + ++handed_);
      probe_at_ = now + kProbeAfter;
      return out;
    }
  }
  if (handed_ > 0 && now >= probe_at_) {
    probe_at_ = now + kProbeAfter;
    return packet(Packet::Kind::PROBE, acknowledged_ + handed_);
  }
  if (acknowledge_at_ && now >= *acknowledge_at_) {
    return packet(Packet::Kind::ACKNOWLEDGEMENT, acknowledged_ + handed_);
  }
  return std::nullopt;
}

std::optional<ReliableChannel::Time> ReliableChannel::due() const {
  if (handed_ == 0) {
    return acknowledge_at_;
  }
  return acknowledge_at_ ? std::min(*acknowledge_at_, probe_at_) : probe_at_;
}

void ReliableChannel::go_back() {
  handed_ = bytes_on_the_way_ = 0;
  ++attempt_;
}

void ReliableChannel::acknowledged(uint64_t count, Time now) {
  check(count <= highest_sent_, "[world] part {} was acknowledged, but {} were sent", count,
        highest_sent_);
  if (count <= acknowledged_) {
    return;
  }
  for (; acknowledged_ < count; ++acknowledged_) {
    if (handed_ > 0) {  // else it belongs to an earlier attempt
      --handed_;
      bytes_on_the_way_ -= parts_.front().bytes.size();
    }
    parts_.pop_front();
  }
  progress_ = now;
  probe_at_ = now + kProbeAfter;
}

void ReliableChannel::acknowledge_by(Time time) {
  acknowledge_at_ = acknowledge_at_ ? std::min(*acknowledge_at_, time) : time;
}

std::optional<ReliableChannel::Received> ReliableChannel::take(const Packet::Header& header,
                                                               const Message& bytes, Time now) {
  acknowledged(header.received, now);
  // Losses of an earlier attempt have been handled already.
  if (header.lost == attempt_) {
    go_back();
  }
  const bool is_part = header.kind == Packet::Kind::PART;
  if (header.number > received_) {
    // Each part after a gap reports it; a probe shows that the report was lost too.
    if (header.kind == Packet::Kind::PROBE || last_reported_lost_ != header.attempt) {
      last_reported_lost_ = lost_ = header.attempt;
      acknowledge_by(now);
    }
    return std::nullopt;
  }
  if (!is_part) {
    if (header.kind == Packet::Kind::PROBE) {
      acknowledge_by(now);
    }
    return std::nullopt;
  }
  if (header.number < received_) {  // a duplicate: the acknowledgement was lost
    acknowledge_by(now + kAcknowledgeAfter);
    return std::nullopt;
  }
  std::optional<Received> out = set_share(header, bytes);
  ++received_;
  ++parts_to_acknowledge_;
  bytes_to_acknowledge_ += bytes.size();
  const bool many =
      parts_to_acknowledge_ >= kWindowParts / 8 || bytes_to_acknowledge_ >= kWindowBytes / 8;
  acknowledge_by(many ? now : now + kAcknowledgeAfter);
  return out;
}

std::optional<ReliableChannel::Received> ReliableChannel::set_share(const Packet::Header& header,
                                                                    const Message& bytes) {
  if (assembly_.filled == 0) {
    if (header.message_bytes == bytes.size()) {
      return Received{header.envelope, bytes};
    }
    assembly_.size = header.message_bytes;
    assembly_.bytes.reset(new std::byte[assembly_.size]);  // uninitialised
  }
  check(header.message_bytes == assembly_.size && bytes.size() > 0 &&
            bytes.size() <= assembly_.size - assembly_.filled,
        "[world] a part of {} bytes arrived after {} of the {} bytes of a message", bytes.size(),
        assembly_.filled, assembly_.size);
  std::memcpy(assembly_.bytes.get() + assembly_.filled, bytes.bytes().data(), bytes.size());
  assembly_.filled += bytes.size();
  if (assembly_.filled < assembly_.size) {
    return std::nullopt;
  }
  const Assembly whole = std::exchange(assembly_, {});
  return Received{header.envelope, {whole.bytes, {whole.bytes.get(), whole.size}}};
}

}  // namespace kinema::world
