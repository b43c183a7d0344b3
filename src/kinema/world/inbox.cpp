#include "kinema/world/inbox.h"

#include <fmt/format.h>

#include <utility>

#include "kinema/core/error.h"

namespace kinema::world {

/// A message that a receiver waits for.
class Inbox::Receiving : public Pending {
 public:
  Receiving(std::shared_ptr<Inbox> inbox, const Address& address, std::shared_ptr<Wanted> wanted)
      : inbox_(std::move(inbox)), address_(address), wanted_(std::move(wanted)) {}
  Receiving(const Receiving&) = delete;
  Receiving& operator=(const Receiving&) = delete;
  ~Receiving() override {
    const std::lock_guard lock(inbox_->mutex_);
    if (const auto lane = inbox_->lanes_.find(address_); lane != inbox_->lanes_.end()) {
      std::erase(lane->second.wanted, wanted_);
      inbox_->tidy(address_);
    }
  }

  bool done() override {
    const std::lock_guard lock(inbox_->mutex_);
    check(wanted_->error.empty(), "{}", wanted_->error);
    return wanted_->done;
  }
  Message message() const override {
    const std::lock_guard lock(inbox_->mutex_);
    return wanted_->message;
  }

 private:
  std::shared_ptr<Inbox> inbox_;
  Address address_;
  std::shared_ptr<Wanted> wanted_;
};

void Inbox::deliver_to(Message message, Wanted& wanted) {
  if (message.size() == wanted.bytes) {
    wanted.message = std::move(message);
    wanted.done = true;
  } else {
    wanted.error = fmt::format("[world] a message of {} bytes arrived, but {} were expected",
                               message.size(), wanted.bytes);
  }
}

void Inbox::tidy(const Address& address) {
  const auto lane = lanes_.find(address);
  if (lane->second.arrived.empty() && lane->second.wanted.empty()) {
    lanes_.erase(lane);
  }
}

void Inbox::deliver(const Address& address, Message message) {
  const std::lock_guard lock(mutex_);
  Lane& lane = lanes_[address];
  if (lane.wanted.empty()) {
    lane.arrived.push_back(std::move(message));
    return;
  }
  deliver_to(std::move(message), *lane.wanted.front());
  lane.wanted.pop_front();
  tidy(address);
}

std::unique_ptr<Pending> Inbox::receive(const Address& address, size_t bytes) {
  auto wanted = std::make_shared<Wanted>(Wanted{.bytes = bytes, .message = {}, .error = {}});
  const std::lock_guard lock(mutex_);
  wanted->error = error_;
  Lane& lane = lanes_[address];
  if (lane.arrived.empty()) {
    lane.wanted.push_back(wanted);
  } else {
    deliver_to(std::move(lane.arrived.front()), *wanted);
    lane.arrived.pop_front();
    tidy(address);
  }
  return std::make_unique<Receiving>(shared_from_this(), address, std::move(wanted));
}

void Inbox::fail_all(const std::string& error) {
  const std::lock_guard lock(mutex_);
  error_ = error_.empty() ? error : error_;
  for (auto& [address, lane] : lanes_) {
    for (const std::shared_ptr<Wanted>& each : lane.wanted) {
      each->error = error_;
    }
  }
}

std::string Inbox::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace kinema::world
