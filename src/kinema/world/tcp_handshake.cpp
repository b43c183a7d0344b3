#include "kinema/world/tcp_handshake.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/printable.h"
#include "kinema/world/communicator.h"
#include "kinema/world/tcp_address.h"
#include "kinema/world/tcp_socket.h"

namespace kinema::world {
namespace {

using std::chrono::milliseconds;

// Connections that are accepted at a time, and that wait for it after Coordinator::settle.
constexpr int kAtOnce = 64;
constexpr int kSettled = 8;

/// 128 random bits as text.
std::string random_text() {
  std::random_device random;
  std::string out;
  for (int i = 0; i < 4; ++i) {
    out += fmt::format("{:08x}", random());
  }
  return out;
}

/// Prints a log line if connecting takes some seconds.
class Waiting {
 public:
  explicit Waiting(const TcpOptions& options) : options_(options) {}
  void look() {
    constexpr double kLong = 5;
    if (!reported_ && options_.on_wait && watch_.seconds() > kLong) {
      reported_ = true;
      options_.on_wait(fmt::format("waiting for {} processes to connect at {}: {}", options_.size,
                                   options_.coordinator,
                                   options_.rank == 0 && !is_own_address(options_.coordinator)
                                       ? "that is not an address of this host, which runs process 0"
                                       : "was kinema started on all hosts?"));
    }
  }
  /// What was received at the coordinator's address, which is no reply of process 0. It may start
  /// later, so this is said once and waiting goes on.
  void foreign(std::string_view received) {
    if (foreign_.empty() && !received.empty() && received.front() != '{') {  // a reply, cut off
      constexpr size_t kShown = 40;
      foreign_ = fmt::format(
          "another program answers at {}: `{}`", options_.coordinator,
          printable_line(received.substr(0, std::min(received.find_first_of("\r\n"), kShown))));
      if (options_.on_wait) {
        options_.on_wait(foreign_);
      }
    }
  }
  const std::string& foreign() const { return foreign_; }
  double seconds() const { return watch_.seconds(); }

 private:
  const TcpOptions& options_;
  Stopwatch watch_;
  bool reported_ = false;
  std::string foreign_;
};

std::string late_error(const TcpOptions& options) {
  return fmt::format(
      "[world] all {} processes of the run at {} have already connected\n  is an earlier run still "
      "running?",
      options.size, options.coordinator);
}

}  // namespace

Coordinator::Coordinator(const TcpOptions& options) : options_(options) {
  const HostPort at = parts_of(options.coordinator);
  // A host name may resolve to a service in front of it: then listen on all addresses.
  const Addresses found = resolve(at);
  if (found) {
    socket_ = listen_at(found->ai_addr, found->ai_addrlen);
  }
  if (!found || (!socket_ && errno == EADDRNOTAVAIL)) {
    socket_ = listen_everywhere(at.port);
  }
  check(static_cast<bool>(socket_),
        "[coordinator_address] process 0 cannot listen on {}: {}\n  two processes with "
        "process_id=0, which is the default? Else another port: coordinator_address={}:PORT for "
        "all",
        options.coordinator, std::generic_category().message(errno), at.host);
}

/// Returns false if the connection can be closed.
bool Coordinator::read(Connection& connection) {
  const std::optional<std::string> more = read_some(connection.socket);
  if (more && more->empty()) {
    return true;
  }
  if (!more || connection.request) {
    return false;  // it was closed, or sent more than a request
  }
  connection.received += *more;
  const size_t end = connection.received.find('\n');
  if (end == std::string::npos) {
    return connection.received.size() <= HandshakeRequest::kMostBytes;
  }
  connection.request = parse_request(std::string_view(connection.received).substr(0, end));
  return connection.request && end + 1 == connection.received.size();
}

void Coordinator::look(milliseconds wait, size_t max_connections, int most_new) {
  constexpr double kTimeout = 10;  // seconds for the handshake request
  std::vector<pollfd> items;
  for (const Connection& each : connections_) {
    items.push_back({.fd = each.socket.get(), .events = POLLIN, .revents = 0});
  }
  items.push_back({.fd = socket_.get(), .events = POLLIN, .revents = 0});
  poll(items.data(), items.size(), static_cast<int>(wait.count()));
  auto item = items.begin();
  std::erase_if(connections_, [&](Connection& connection) {
    const bool has_data = item++->revents != 0;
    return has_data ? !read(connection)
                    : !connection.request && connection.since.seconds() > kTimeout;
  });
  for (int i = 0; i < most_new; ++i) {
    std::optional<io::Descriptor> accepted = accept_from(socket_);
    if (!accepted) {
      break;
    }
    if (connections_.size() >= max_connections) {  // idle connections make room
      const auto idle = std::ranges::find_if(
          connections_, [](const Connection& connection) { return !connection.request; });
      if (idle == connections_.end()) {
        break;
      }
      connections_.erase(idle);
    }
    connections_.push_back(
        {.socket = *std::move(accepted), .received = {}, .since = {}, .request = {}});
  }
}

std::vector<const HandshakeRequest*> Coordinator::members() {
  std::vector<const HandshakeRequest*> out(static_cast<size_t>(options_.size));
  for (const Connection& connection : connections_) {
    if (!connection.request) {
      continue;
    }
    const HandshakeRequest& request = *connection.request;
    if (request.size != options_.size) {
      refuse(fmt::format("[num_processes] process {} was started with {}, process 0 with {}",
                         request.rank, request.size, options_.size));
    }
    if (request.rank >= options_.size) {
      refuse(fmt::format("[process_id] a process at {} has the number {} of {}", request.address,
                         request.rank, options_.size));
    }
    const HandshakeRequest*& place = out[static_cast<size_t>(request.rank)];
    const bool is_again =
        place != nullptr && place->token == request.token;  // its connection was interrupted
    if (request.rank == 0 || (place != nullptr && !is_again)) {
      refuse(
          fmt::format("[process_id] two processes have the number {}: at {} and {}\n  each needs "
                      "its own, from 0",
                      request.rank, request.rank == 0 ? result_.addresses.front() : place->address,
                      request.address));
    }
    place = &request;
  }
  return out;
}

void Coordinator::send_to_all(const HandshakeReply& reply) {
  const std::string line = to_line(reply);
  for (const Connection& each : connections_) {
    if (each.request) {
      send_all(each.socket, line, milliseconds(5000));
    }
  }
  connections_.clear();
}

void Coordinator::refuse(const std::string& why) {
  send_to_all({.result = {}, .error = why});
  fail("{}", why);
}

HandshakeResult Coordinator::gather(const std::string& own) {
  result_ = {.secret = random_text(), .addresses = {own}};
  constexpr size_t kMostUnauthenticated = 64;
  for (Waiting waiting(options_);;) {
    waiting.look();
    look(milliseconds(100), static_cast<size_t>(options_.size) + kMostUnauthenticated, kAtOnce);
    const std::vector<const HandshakeRequest*> all = members();
    std::vector<int64_t> missing;
    for (int64_t rank = 1; rank < options_.size; ++rank) {
      if (all[static_cast<size_t>(rank)] == nullptr) {
        missing.push_back(rank);
      }
    }
    if (missing.empty()) {
      tokens_ = {""};
      for (size_t rank = 1; rank < all.size(); ++rank) {
        result_.addresses.push_back(all[rank]->address);
        tokens_.push_back(all[rank]->token);
      }
      send_to_all({.result = result_, .error = {}});
      return result_;
    }
    if (waiting.seconds() > options_.seconds) {
      refuse(
          fmt::format("[world] {} did not connect to {} within {:g} s\n  each is started with its "
                      "own process_id; its host must reach that port",
                      ranks_text(missing), options_.coordinator, options_.seconds));
    }
  }
}

void Coordinator::settle() {
  settled_ = true;
  limit_backlog(socket_, kSettled);
}

void Coordinator::answer_late_requests() {
  const int most = settled_ ? kSettled : kAtOnce;
  look(milliseconds(0), static_cast<size_t>(most), most);
  std::erase_if(connections_, [&](const Connection& connection) {
    if (!connection.request) {
      return false;
    }
    const auto rank = static_cast<size_t>(connection.request->rank);
    const bool known =
        rank > 0 && rank < tokens_.size() && connection.request->token == tokens_[rank];
    const std::string line =
        to_line(known ? HandshakeReply{.result = result_, .error = {}}
                      : HandshakeReply{.result = {}, .error = late_error(options_)});
    send_all(connection.socket, line, milliseconds(known ? 1000 : 0));
    return true;
  });
}

namespace {

/// The reply of process 0; nothing if the connection ends before, or at the timeout.
std::optional<HandshakeReply> read_reply(const io::Descriptor& socket, Waiting& waiting,
                                         double longest) {
  std::string received;
  while (waiting.seconds() < longest && received.size() <= HandshakeReply::kMostBytes) {
    waiting.look();
    wait_for(socket, milliseconds(100));
    const std::optional<std::string> more = read_some(socket);
    if (!more) {
      break;
    }
    received += *more;
    if (const size_t end = received.find('\n'); end != std::string::npos) {
      std::optional<HandshakeReply> reply = parse_reply(std::string_view(received).substr(0, end));
      if (!reply) {
        waiting.foreign(received);
      }
      return reply;
    }
  }
  waiting.foreign(received);
  return std::nullopt;
}

}  // namespace

HandshakeResult handshake(const TcpOptions& options, const std::string& own) {
  const HostPort at = parts_of(options.coordinator);
  const std::string request = to_line(HandshakeRequest{
      .rank = options.rank, .size = options.size, .address = own, .token = random_text()});
  // Process 0 waits as long for the last process, and reports it.
  const double longest = options.seconds + 10;
  Waiting waiting(options);
  while (waiting.seconds() < longest) {
    waiting.look();
    const std::optional<io::Descriptor> socket = connect_to(at, milliseconds(1000));
    if (socket && send_all(*socket, request, milliseconds(1000))) {
      if (const std::optional<HandshakeReply> reply = read_reply(*socket, waiting, longest)) {
        check(reply->error.empty(), "{}", reply->error);
        if (std::ssize(reply->result.addresses) == options.size) {
          return reply->result;
        }
      }
    }
    std::this_thread::sleep_for(milliseconds(200));
  }
  check(
      waiting.foreign().empty(),
      "[world] {}, expected process 0\n  coordinator_address needs a port of its host that is free",
      waiting.foreign());
  fail(
      "[world] process 0 did not answer at {} within {:g} s\n  is it started, and does this host "
      "reach that port?",
      options.coordinator, longest);
}

}  // namespace kinema::world
