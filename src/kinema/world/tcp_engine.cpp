#include "kinema/world/tcp_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/core/thread_limit.h"
#include "kinema/core/trace.h"
#include "kinema/world/authenticator.h"
#include "kinema/world/inbox.h"
#include "kinema/world/reliable_channel.h"
#include "kinema/world/tcp_address.h"
#include "kinema/world/tcp_handshake.h"

namespace kinema::world {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Maximum of a connection's queued packets: a full window and control packets. Others are dropped,
// and sent again.
constexpr int kMostWaiting = 2 * ReliableChannel::kWindowParts;

/// A context for one socket per process: the default limit is 1,023.
zmq::context_t context_for(int64_t processes) {
  check_thread_limit(3, "ZeroMQ");  // two of ZeroMQ, and the engine's
  constexpr int kOthers = 1023;
  zmq::context_t context;
  context.set(zmq::ctxopt::max_sockets, static_cast<int>(processes) + kOthers);
  return context;
}

zmq::socket_t make_socket(zmq::context_t& context, zmq::socket_type type) {
  zmq::socket_t socket(context, type);
  socket.set(zmq::sockopt::ipv6, true);
  // A thousand processes connect at the same time: those that are rejected try again seconds later.
  constexpr int kAtOnce = 4096;
  socket.set(zmq::sockopt::backlog, kAtOnce);
  socket.set(zmq::sockopt::linger, 1000);  // ms: for the last acknowledgements
  return socket;
}

/// Listens on a port chosen by the system, for the other processes; returns the address.
std::string listen_for(zmq::socket_t& socket, const TcpOptions& options) {
  const std::string own = wait_until_reachable(options);
  try {
    socket.bind(fmt::format("tcp://{}:*", own));
  } catch (const zmq::error_t& error) {
    fail("[world] cannot listen on {}: {}", own, error.what());
  }
  return socket.get(zmq::sockopt::last_endpoint);
}

/// Bytes as a ZeroMQ message, without a copy.
zmq::message_t share(const Message& message) {
  if (message.size() == 0) {
    return {};
  }
  auto* const held = new Message(message);
  void* const bytes = const_cast<std::byte*>(message.bytes().data());  // ZeroMQ only reads it
  return {bytes, message.size(), [](void*, void* hint) { delete static_cast<Message*>(hint); },
          held};
}
Message share(zmq::message_t message) {
  const auto held = std::make_shared<zmq::message_t>(std::move(message));
  return {held, {held->data<std::byte>(), held->size()}};
}

class TcpEngine : public Engine, public std::enable_shared_from_this<TcpEngine> {
 public:
  explicit TcpEngine(const TcpOptions& options)
      : rank_(options.rank),
        context_(context_for(options.size)),
        authenticator_(context_),
        incoming_(make_socket(context_, zmq::socket_type::pull)) {
    if (rank_ == 0) {  // opens the port first, so that a conflict is reported immediately
      coordinator_.emplace(options);
    }
    for (int64_t rank = 0; rank < options.size; ++rank) {
      unheard_.insert(rank);
      peers_.push_back({.channel = ReliableChannel(rank_),
                        .socket = {},
                        .timeout = least_timeout(options.size)});
    }
    unheard_.erase(rank_);
    Authenticator::guard(incoming_, ReliableChannel::kPartBytes, kMostWaiting);
    const std::string own = listen_for(incoming_, options);
    handshake_result_ = rank_ == 0 ? coordinator_->gather(own) : handshake(options, own);
    worker_ = start_thread([this] { listen(); },
                           [this](const std::exception_ptr& error) { fail_all(error); });
  }
  TcpEngine(const TcpEngine&) = delete;
  TcpEngine& operator=(const TcpEngine&) = delete;
  ~TcpEngine() override {
    ends_ = true;
    worker_.join();
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return std::ssize(peers_); }
  std::string name() const override {
    const auto [major, minor, patch] = zmq::version();
    return fmt::format("ZeroMQ {}.{}.{}", major, minor, patch);
  }

  int open_channel() override { return channels_++; }

  std::unique_ptr<Pending> send(int channel, Message message, int64_t to, int tag) override {
    const uint64_t end =
        post(to, {.kind = Envelope::Kind::MESSAGE, .channel = channel, .tag = tag}, message);
    return std::make_unique<Sending>(shared_from_this(), to, end);
  }
  std::unique_ptr<Pending> receive(int channel, size_t bytes, int64_t from, int tag) override {
    return inbox_->receive({from, channel, tag}, bytes);
  }

  // Process 0 stores the keys.
  void put(const std::string& key, const std::string& value) override {
    if (rank_ == 0) {
      const std::lock_guard lock(keys_mutex_);
      keys_.emplace(key, value);
    } else {
      post(0, {.kind = Envelope::Kind::PUT, .key_bytes = static_cast<int32_t>(key.size())},
           Message::copy_of(key + value));
    }
  }
  std::optional<std::string> get(const std::string& key) override {
    if (rank_ == 0) {
      const std::lock_guard lock(keys_mutex_);
      const auto found = keys_.find(key);
      return found == keys_.end() ? std::nullopt : std::optional(found->second);
    }
    // One query at a time, because replies arrive in order.
    const std::lock_guard one(ask_mutex_);
    std::unique_lock lock(keys_mutex_);
    answer_.reset();
    const int32_t question = ++question_;
    post(0, {.kind = Envelope::Kind::ASK, .tag = question}, Message::copy_of(key));
    constexpr seconds kLongest(10);  // process 0 replies immediately, or is lost
    answered_.wait_for(lock, kLongest, [&] { return answer_.has_value(); });
    return answer_.value_or(std::nullopt);
  }

 private:
  /// The state for another process.
  struct Peer {
    ReliableChannel channel;
    std::optional<zmq::socket_t> socket;  // to it
    int32_t attempt = 0;                  // the channel's attempt that uses the socket
    Clock::time_point connected = {};
    milliseconds timeout;
  };
  /// A connection without acknowledgements for this long is replaced: devices between two hosts may
  /// drop it silently. The next one gets twice the time. A process to which a thousand others
  /// connect takes some seconds to answer the last one.
  static milliseconds least_timeout(int64_t processes) {
    return seconds(5) + milliseconds(25) * processes;
  }
  static constexpr milliseconds kMostTimeout = seconds(60);

  class Sending : public Pending {
   public:
    Sending(std::shared_ptr<TcpEngine> engine, int64_t to, uint64_t end)
        : engine_(std::move(engine)), to_(to), end_(end) {}
    bool done() override { return engine_->was_sent(to_, end_); }

   private:
    std::shared_ptr<TcpEngine> engine_;
    int64_t to_;
    uint64_t end_;
  };

  bool was_sent(int64_t to, uint64_t end) {
    const std::lock_guard lock(peers_mutex_);
    if (peers_.at(static_cast<size_t>(to)).channel.was_sent(end)) {
      return true;
    }
    const std::string error = inbox_->error();
    check(error.empty(), "{}", error);
    return false;
  }

  /// Returns the number of the part after the message's last.
  uint64_t post(int64_t to, const Envelope& envelope, const Message& message) {
    const std::string error = inbox_->error();
    check(error.empty(), "{}", error);
    const std::lock_guard lock(peers_mutex_);
    Peer& peer = peers_.at(static_cast<size_t>(to));
    const uint64_t end = peer.channel.send(envelope, message);
    try {
      send_due(to, Clock::now());
    } catch (const zmq::error_t& failed) {
      fail("[world] a message to process {} cannot be sent: {}", to, failed.what());
    }
    return end;
  }

  void connect(int64_t to, Clock::time_point now) {
    Peer& peer = peers_[static_cast<size_t>(to)];
    if (peer.socket) {  // its queued packets are sent again
      peer.socket->set(zmq::sockopt::linger, 0);
    }
    peer.socket.emplace(make_socket(context_, zmq::socket_type::push));
    peer.socket->set(zmq::sockopt::sndhwm, kMostWaiting);
    peer.socket->set(zmq::sockopt::reconnect_ivl, 50);  // ms, doubled each time
    peer.socket->set(zmq::sockopt::reconnect_ivl_max, 1000);
    Authenticator::introduce(*peer.socket, handshake_result_.secret);
    peer.socket->connect(handshake_result_.addresses[static_cast<size_t>(to)]);
    peer.attempt = peer.channel.attempt();
    peer.connected = now;
  }

  /// Sends all packets that are due to a process.
  void send_due(int64_t to, Clock::time_point now) {
    Peer& peer = peers_[static_cast<size_t>(to)];
    while (const std::optional<Packet> packet = peer.channel.next(now)) {
      if (!peer.socket || peer.attempt != peer.channel.attempt()) {
        connect(to, now);
      }
      const zmq::send_flags flags = zmq::send_flags::dontwait;
      if (peer.socket->send(zmq::buffer(&packet->header, sizeof packet->header),
                            flags | zmq::send_flags::sndmore)) {
        peer.socket->send(share(packet->bytes), flags);
      }
    }
  }

  /// Replaces a connection without acknowledgements.
  void go_back_where_silent(int64_t to, Clock::time_point now) {
    Peer& peer = peers_[static_cast<size_t>(to)];
    const std::optional<Clock::time_point> since = peer.channel.waiting_since();
    if (!since || *since > peer.connected) {
      peer.timeout = least_timeout(size());
    }
    if (since && now - std::max(*since, peer.connected) > peer.timeout) {
      peer.timeout = std::min(peer.timeout * 2, kMostTimeout);
      peer.channel.go_back();
      send_due(to, now);
    }
  }

  /// All waiting receivers get the error.
  void fail_all(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& failed) {
      inbox_->fail_all(fmt::format("[world] no messages can be received: {}", failed.what()));
    }
  }

  void listen() {
    trace::name_thread("messages");
    // At the end, unacknowledged messages are sent to processes that still exist.
    constexpr seconds kLongestEnd(5);
    constexpr milliseconds kPause(100);
    constexpr milliseconds kSettledPause(500);
    std::optional<Clock::time_point> end;
    Clock::time_point next_connections = Clock::now();
    milliseconds pause(0);
    for (bool sends = true; sends;) {
      std::array<zmq::pollitem_t, 2> items = {
          {{incoming_.handle(), 0, ZMQ_POLLIN, 0},
           {authenticator_.requests().handle(), 0, ZMQ_POLLIN, 0}}};
      zmq::poll(items.data(), items.size(), pause);
      constexpr int kAtOnce = 64;
      for (int i = 0; i < kAtOnce && take(); ++i) {
      }
      authenticator_.answer(handshake_result_.secret);
      const Clock::time_point now = Clock::now();
      if (coordinator_ && now >= next_connections) {
        coordinator_->answer_late_requests();
        next_connections = now + (unheard_.empty() ? kSettledPause : kPause);
      }
      if (ends_ && !end) {
        end = now + kLongestEnd;
      }
      pause = kPause;
      bool has_unacknowledged = false;
      const std::lock_guard lock(peers_mutex_);
      for (int64_t to = 0; to < size(); ++to) {
        ReliableChannel& channel = peers_[static_cast<size_t>(to)].channel;
        if (channel.is_idle()) {  // as most are with a thousand processes
          continue;
        }
        send_due(to, now);
        go_back_where_silent(to, now);
        has_unacknowledged = has_unacknowledged || !channel.all_acknowledged();
        if (const std::optional<Clock::time_point> due = channel.due()) {
          pause = std::min(pause, std::chrono::ceil<milliseconds>(
                                      std::max(*due - now, Clock::duration::zero())));
        }
      }
      sends = !end || (has_unacknowledged && now < *end);
    }
    const std::lock_guard lock(peers_mutex_);
    for (int64_t to = 0; to < size(); ++to) {  // acknowledgements that wait for other packets
      send_due(to, Clock::now() + ReliableChannel::kAcknowledgeAfter);
    }
  }

  /// Receives a packet, if there is one.
  bool take() {
    zmq::message_t first;
    zmq::message_t body;
    if (!incoming_.recv(first, zmq::recv_flags::dontwait)) {
      return false;
    }
    bool two_parts = first.more() && incoming_.recv(body);
    for (zmq::message_t rest; incoming_.get(zmq::sockopt::rcvmore) && incoming_.recv(rest);) {
      two_parts = false;
    }
    Packet::Header header;
    check(two_parts && first.size() == sizeof header,
          "[world] received a message of another version of kinema");
    std::memcpy(&header, first.data(), sizeof header);
    check(header.from >= 0 && header.from < size(),
          "[world] received a message of process {} of {}", header.from, size());
    std::optional<ReliableChannel::Received> received;
    {
      const std::lock_guard lock(peers_mutex_);
      received = peers_[static_cast<size_t>(header.from)].channel.take(
          header, share(std::move(body)), Clock::now());
    }
    if (unheard_.erase(header.from) > 0 && unheard_.empty() && coordinator_) {
      coordinator_->settle();
    }
    if (received) {
      answer(header.from, received->envelope, std::move(received->message));
    }
    return true;
  }

  void answer(int64_t from, const Envelope& envelope, Message message) {
    switch (envelope.kind) {
      case Envelope::Kind::MESSAGE:
        inbox_->deliver({from, envelope.channel, envelope.tag}, std::move(message));
        break;
      case Envelope::Kind::PUT: {
        const std::string text = message.text();
        const auto length = std::min(static_cast<size_t>(envelope.key_bytes), text.size());
        const std::lock_guard lock(keys_mutex_);
        keys_.emplace(text.substr(0, length), text.substr(length));
        break;
      }
      case Envelope::Kind::ASK: {
        const std::optional<std::string> value = rank_ == 0 ? get(message.text()) : std::nullopt;
        post(from,
             {.kind = value ? Envelope::Kind::ANSWER : Envelope::Kind::NO_ANSWER,
              .tag = envelope.tag},
             Message::copy_of(value.value_or("")));
        break;
      }
      case Envelope::Kind::ANSWER:
      case Envelope::Kind::NO_ANSWER: {
        const std::lock_guard lock(keys_mutex_);
        if (envelope.tag == question_) {
          answer_ = envelope.kind == Envelope::Kind::ANSWER ? std::optional(message.text())
                                                            : std::nullopt;
          answered_.notify_one();
        }
        break;
      }
    }
  }

  int64_t rank_;
  zmq::context_t context_;
  std::optional<Coordinator> coordinator_;  // of process 0
  Authenticator authenticator_;
  zmq::socket_t incoming_;
  HandshakeResult handshake_result_;
  std::mutex peers_mutex_;  // guards the peers
  std::vector<Peer> peers_;
  std::set<int64_t> unheard_;  // ranks that have not sent anything yet
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::atomic<int> channels_ = 0;
  std::mutex ask_mutex_;
  std::mutex keys_mutex_;  // guards the members below
  std::map<std::string, std::string> keys_;
  std::condition_variable answered_;
  std::optional<std::optional<std::string>> answer_;
  int32_t question_ = 0;
  std::atomic<bool> ends_ = false;
  std::jthread worker_;
};

}  // namespace

std::shared_ptr<Engine> join_over_tcp(const TcpOptions& options) {
  try {
    return std::make_shared<TcpEngine>(options);
  } catch (const zmq::error_t& error) {  // too few sockets or memory
    fail("[world] the processes cannot connect at {}: {}", options.coordinator, error.what());
  }
}

}  // namespace kinema::world
