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

/// Messages that have come and those that are waited for, matched in order. Any thread may call.
class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  /// From which process, by which channel and tag.
  using Address = std::tuple<int64_t, int, int>;

  void deliver(const Address& address, Message message);
  /// A message of `bytes` bytes, which is given up when the result is dropped.
  std::unique_ptr<Pending> receive(const Address& address, size_t bytes);
  /// No more messages come: whoever waits for one gets this error.
  void fail_all(const std::string& error);
  /// That error; empty while all is well.
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

  static void hand_over(Message message, Wanted& wanted);
  /// Forgets an address at which nothing has come and nothing is waited for.
  void tidy(const Address& address);

  mutable std::mutex mutex_;  // of what follows, and of what is wanted
  std::map<Address, Lane> lanes_;
  std::string error_;
};

}  // namespace kinema::world
