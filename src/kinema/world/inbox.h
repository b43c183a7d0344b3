#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "kinema/world/engine.h"

namespace kinema::world {

/// Matches received messages with receivers, in order. Thread-safe.
class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  /// Sender, channel and tag.
  using Address = std::tuple<int64_t, int, int>;

  void deliver(const Address& address, Message message);
  /// Receives a message of `bytes` bytes; cancelled if the result is destroyed.
  std::unique_ptr<Pending> receive(const Address& address, size_t bytes);
  /// No more messages will arrive: all receivers get this error.
  void fail_all(const std::string& error);
  /// That error; empty if there is none.
  std::string error() const;

 private:
  struct Wanted {
    size_t bytes = 0;
    Message message;
    bool done = false;
    std::string error;
  };
  struct Lane {
    std::deque<Message> arrived;
    std::deque<std::shared_ptr<Wanted>> wanted;
  };
  class Receiving;

  static void deliver_to(Message message, Wanted& wanted);
  /// Removes an address without messages and receivers.
  void tidy(const Address& address);

  mutable std::mutex mutex_;  // guards the members below, and the receivers
  std::map<Address, Lane> lanes_;
  std::string error_;
};

}  // namespace kinema::world
