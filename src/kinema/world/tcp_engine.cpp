#include "kinema/world/tcp_engine.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/trace.h"
#include "kinema/world/tcp_meeting.h"

namespace kinema::world {
namespace {

enum class Kind : int32_t { MESSAGE, PUT, ASK, ANSWER, NONE_YET };

/// Before the bytes of each message. Processes of one run are of one build.
struct Header {
  uint64_t session = 0;
  uint64_t number = 0;  // of the sender's messages to this process, in a row
  int64_t from = 0;
  Kind kind = Kind::MESSAGE;
  int32_t channel = 0;
  int32_t tag = 0;        // of MESSAGE
  int32_t key_bytes = 0;  // of PUT: the key comes first
};

/// Whose message it is, and which.
using Address = std::tuple<int64_t, int, int>;  // from, channel, tag

/// A message that is waited for.
struct Wanted {
  std::span<std::byte> into;
  bool done = false;
  std::string error;
};

/// What has come and what is waited for, matched in order.
class Inbox {
 public:
  void deliver(const Address& address, zmq::message_t message) {
    const std::lock_guard lock(mutex_);
    Lane& lane = lanes_[address];
    if (lane.wanted.empty()) {
      lane.arrived.push_back(std::move(message));
      return;
    }
    hand_over(message, *lane.wanted.front());
    lane.wanted.pop_front();
  }
  void want(const Address& address, const std::shared_ptr<Wanted>& wanted) {
    const std::lock_guard lock(mutex_);
    wanted->error = error_;
    Lane& lane = lanes_[address];
    if (lane.arrived.empty()) {
      lane.wanted.push_back(wanted);
      return;
    }
    hand_over(lane.arrived.front(), *wanted);
    lane.arrived.pop_front();
  }
  bool is_done(const Wanted& wanted) {
    const std::lock_guard lock(mutex_);
    check(wanted.error.empty(), "{}", wanted.error);
    return wanted.done;
  }
  void give_up(const Address& address, const std::shared_ptr<Wanted>& wanted) {
    const std::lock_guard lock(mutex_);
    std::erase(lanes_[address].wanted, wanted);
  }
  /// Nothing can be relied on any more.
  void break_off(const std::string& error) {
    const std::lock_guard lock(mutex_);
    error_ = error_.empty() ? error : error_;
    for (auto& [address, lane] : lanes_) {
      for (const std::shared_ptr<Wanted>& each : lane.wanted) {
        each->error = error_;
      }
    }
  }

 private:
  struct Lane {
    std::deque<zmq::message_t> arrived;
    std::deque<std::shared_ptr<Wanted>> wanted;
  };
  static void hand_over(const zmq::message_t& message, Wanted& wanted) {
    if (message.size() == wanted.into.size()) {
      std::memcpy(wanted.into.data(), message.data(), message.size());
      wanted.done = true;
    } else {
      wanted.error = fmt::format("[world] a message of {} bytes came where {} were expected",
                                 message.size(), wanted.into.size());
    }
  }

  std::mutex mutex_;  // of what follows, and of what is wanted
  std::map<Address, Lane> lanes_;
  std::string error_;
};

/// What was sent is copied: nothing is under way.
class Sent : public Pending {
 public:
  bool done() override { return true; }
};

class Receiving : public Pending {
 public:
  Receiving(std::shared_ptr<Inbox> inbox, const Address& address, std::span<std::byte> into)
      : inbox_(std::move(inbox)),
        address_(address),
        wanted_(std::make_shared<Wanted>(Wanted{into})) {
    inbox_->want(address_, wanted_);
  }
  Receiving(const Receiving&) = delete;
  Receiving& operator=(const Receiving&) = delete;
  ~Receiving() override { inbox_->give_up(address_, wanted_); }
  bool done() override { return inbox_->is_done(*wanted_); }

 private:
  std::shared_ptr<Inbox> inbox_;
  Address address_;
  std::shared_ptr<Wanted> wanted_;
};

/// One that may have a socket for each other process: a context takes 1,023 unless it is told.
zmq::context_t context_for(int64_t processes) {
  constexpr int kOthers = 1023;
  zmq::context_t context;
  context.set(zmq::ctxopt::max_sockets, static_cast<int>(processes) + kOthers);
  return context;
}

class TcpEngine : public Engine {
 public:
  explicit TcpEngine(const TcpMeeting& meeting)
      : rank_(meeting.rank),
        context_(context_for(meeting.size)),
        incoming_(make_socket(context_, zmq::socket_type::pull)),
        outgoing_(static_cast<size_t>(meeting.size)),
        received_(static_cast<size_t>(meeting.size)) {
    if (rank_ == 0) {  // takes the port first: who else has it is told at once
      coordinator_.emplace(context_, meeting);
    }
    const std::string own = listen_for(incoming_, meeting);
    met_ = rank_ == 0 ? coordinator_->gather(own) : meet(context_, meeting, own);
    worker_ = std::thread([this] { work(); });
  }
  TcpEngine(const TcpEngine&) = delete;
  TcpEngine& operator=(const TcpEngine&) = delete;
  ~TcpEngine() override {
    ends_ = true;
    worker_.join();
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return std::ssize(outgoing_); }
  std::string name() const override {
    const auto [major, minor, patch] = zmq::version();
    return fmt::format("ZeroMQ {}.{}.{}", major, minor, patch);
  }

  int open_channel() override { return channels_++; }

  std::unique_ptr<Pending> send(int channel, std::span<const std::byte> bytes, int64_t to,
                                int tag) override {
    post(to, {.kind = Kind::MESSAGE, .channel = channel, .tag = tag}, {}, bytes);
    return std::make_unique<Sent>();
  }
  std::unique_ptr<Pending> receive(int channel, std::span<std::byte> bytes, int64_t from,
                                   int tag) override {
    return std::make_unique<Receiving>(inbox_, Address(from, channel, tag), bytes);
  }

  // Process 0 keeps the keys.
  void put(const std::string& key, const std::string& value) override {
    if (rank_ == 0) {
      const std::lock_guard lock(keys_mutex_);
      keys_.emplace(key, value);
    } else {
      post(0, {.kind = Kind::PUT, .key_bytes = static_cast<int32_t>(key.size())}, key,
           std::as_bytes(std::span(value)));
    }
  }
  std::optional<std::string> get(const std::string& key) override {
    if (rank_ == 0) {
      const std::lock_guard lock(keys_mutex_);
      const auto found = keys_.find(key);
      return found == keys_.end() ? std::nullopt : std::optional(found->second);
    }
    // One question at a time: answers come in order.
    const std::lock_guard one(ask_mutex_);
    std::unique_lock lock(keys_mutex_);
    answer_.reset();
    const int32_t question = ++question_;
    post(0, {.kind = Kind::ASK, .tag = question}, {}, std::as_bytes(std::span(key)));
    constexpr std::chrono::seconds kLongest(10);  // process 0 answers at once, or is gone
    answered_.wait_for(lock, kLongest, [&] { return answer_.has_value(); });
    return answer_.value_or(std::nullopt);
  }

 private:
  void post(int64_t to, Header header, std::string_view key, std::span<const std::byte> bytes) {
    const std::lock_guard lock(send_mutex_);
    try {
      send_parts(to, header, key, bytes);
    } catch (const zmq::error_t& error) {
      fail("[world] a message to process {} cannot be sent: {}", to, error.what());
    }
  }

  void send_parts(int64_t to, Header header, std::string_view key,
                  std::span<const std::byte> bytes) {
    auto& [socket, count] = outgoing_.at(static_cast<size_t>(to));
    if (!socket) {
      socket.emplace(make_socket(context_, zmq::socket_type::push));
      socket->connect(met_.addresses[static_cast<size_t>(to)]);
    }
    header.session = met_.session;
    header.number = count++;
    header.from = rank_;
    zmq::message_t body(key.size() + bytes.size());
    if (!key.empty()) {
      std::memcpy(body.data(), key.data(), key.size());
    }
    if (!bytes.empty()) {
      std::memcpy(body.data<std::byte>() + key.size(), bytes.data(), bytes.size());
    }
    socket->send(zmq::buffer(&header, sizeof header), zmq::send_flags::sndmore);
    socket->send(std::move(body), zmq::send_flags::none);
  }

  void work() {
    trace::name_thread("messages");
    try {
      listen();
    } catch (const std::exception& error) {
      inbox_->break_off(fmt::format("[world] no messages can be received: {}", error.what()));
    }
  }

  void listen() {
    while (!ends_) {
      std::array<zmq::pollitem_t, 1> items = {{{incoming_.handle(), 0, ZMQ_POLLIN, 0}}};
      if (zmq::poll(items.data(), items.size(), std::chrono::milliseconds(100)) > 0) {
        take();
      } else if (coordinator_) {
        coordinator_->refuse_late();
      }
    }
  }

  void take() {
    zmq::message_t first;
    zmq::message_t body;
    if (!incoming_.recv(first)) {
      return;
    }
    const bool has_body = first.more() && incoming_.recv(body);
    bool two_parts = has_body;
    for (zmq::message_t rest; incoming_.get(zmq::sockopt::rcvmore) && incoming_.recv(rest);) {
      two_parts = false;
    }
    Header header;
    if (!two_parts || first.size() != sizeof header) {
      return;  // none of ours
    }
    std::memcpy(&header, first.data(), sizeof header);
    if (header.session != met_.session || header.from < 0 || header.from >= size()) {
      return;
    }
    uint64_t& expected = received_[static_cast<size_t>(header.from)];
    if (header.number != expected) {
      inbox_->break_off(fmt::format("[world] {} messages of process {} were lost on the way",
                                    header.number - expected, header.from));
    }
    expected = header.number + 1;
    answer(header, std::move(body));
  }

  void answer(const Header& header, zmq::message_t body) {
    switch (header.kind) {
      case Kind::MESSAGE:
        inbox_->deliver({header.from, header.channel, header.tag}, std::move(body));
        break;
      case Kind::PUT:
        if (header.key_bytes >= 0 && static_cast<size_t>(header.key_bytes) <= body.size()) {
          const std::string text = body.to_string();
          const auto length = static_cast<size_t>(header.key_bytes);
          const std::lock_guard lock(keys_mutex_);
          keys_.emplace(text.substr(0, length), text.substr(length));
        }
        break;
      case Kind::ASK: {
        const std::optional<std::string> value = rank_ == 0 ? get(body.to_string()) : std::nullopt;
        const Header reply{.kind = value ? Kind::ANSWER : Kind::NONE_YET, .tag = header.tag};
        const std::string text = value.value_or("");
        post(header.from, reply, {}, std::as_bytes(std::span(text)));
        break;
      }
      case Kind::ANSWER:
      case Kind::NONE_YET: {
        const std::lock_guard lock(keys_mutex_);
        if (header.tag == question_) {
          answer_ = header.kind == Kind::ANSWER ? std::optional(body.to_string()) : std::nullopt;
          answered_.notify_one();
        }
        break;
      }
    }
  }

  /// To another process, and how many messages it was sent.
  struct Outgoing {
    std::optional<zmq::socket_t> socket;
    uint64_t count = 0;
  };

  int64_t rank_;
  zmq::context_t context_;
  std::optional<Coordinator> coordinator_;  // of process 0
  zmq::socket_t incoming_;
  Met met_;
  std::mutex send_mutex_;  // of the sockets
  std::vector<Outgoing> outgoing_;
  std::vector<uint64_t> received_;  // messages of each process; of the worker
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::atomic<int> channels_ = 0;
  std::mutex ask_mutex_;
  std::mutex keys_mutex_;  // of what follows
  std::map<std::string, std::string> keys_;
  std::condition_variable answered_;
  std::optional<std::optional<std::string>> answer_;
  int32_t question_ = 0;
  std::atomic<bool> ends_ = false;
  std::thread worker_;
};

}  // namespace

std::shared_ptr<Engine> join_over_tcp(const TcpMeeting& meeting) {
  try {
    return std::make_shared<TcpEngine>(meeting);
  } catch (const zmq::error_t& error) {  // no more sockets, or memory
    fail("[world] the processes cannot meet at {}: {}", meeting.coordinator, error.what());
  }
}

}  // namespace kinema::world
