#include "kinema/world/tcp_meeting.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/stopwatch.h"
#include "kinema/world/communicator.h"

namespace kinema::world {
namespace {

using nlohmann::json;

constexpr int kProtocol = 1;
constexpr size_t kLongest = 1 << 20;  // bytes of an answer with a thousand addresses: 40 thousand

struct HostPort {
  std::string host;  // without brackets
  std::string port;
};

HostPort parts_of(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  const bool has_port = colon != std::string::npos && colon > 0;
  const char* const end = address.data() + address.size();
  const auto [stop, error] =
      has_port ? std::from_chars(address.data() + colon + 1, end, port)
               : std::from_chars_result{.ptr = nullptr, .ec = std::errc::invalid_argument};
  std::string host = address.substr(0, has_port ? colon : 0);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  check(has_port && error == std::errc() && stop == end && port > 0 && port < 65536 &&
            !host.empty() && (host.find(':') == std::string::npos || address.front() == '['),
        "[coordinator_address] `{}`: HOST:PORT of process 0 was expected, such as 10.0.0.2:8476",
        address);
  check(host != "0.0.0.0" && host != "::" && host != "*",
        "[coordinator_address] `{}` is any host: the one of process 0 was expected, as the others "
        "reach it",
        address);
  return {.host = host, .port = std::to_string(port)};
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Empty while the name means nothing: name servers learn of new hosts late.
Addresses resolve(const HostPort& at) {
  const addrinfo wanted{.ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_DGRAM};
  addrinfo* found = nullptr;
  const int status = getaddrinfo(at.host.c_str(), at.port.c_str(), &wanted, &found);
  return {status == 0 ? found : nullptr, &freeaddrinfo};
}

/// An address as ZeroMQ wants it: `10.0.0.2`, `[::1]`.
std::string text_of(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return address->sa_family == AF_INET6 ? fmt::format("[{}]", text.data()) : text.data();
}

/// The address of this host from which the coordinator is reached. Sends nothing.
std::string own_address(const Addresses& coordinator) {
  const int socket = ::socket(coordinator->ai_family, SOCK_DGRAM, 0);
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const bool known = socket >= 0 &&
                     connect(socket, coordinator->ai_addr, coordinator->ai_addrlen) == 0 &&
                     getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) == 0;
  const std::string text = known ? text_of(reinterpret_cast<sockaddr*>(&own), length) : "";
  if (socket >= 0) {
    close(socket);
  }
  return text;
}

/// Whether an address is this host's: then it is reached from itself. True where that is not known.
bool is_here(const std::string& coordinator) {
  const Addresses found = resolve(parts_of(coordinator));
  const std::string own = found ? own_address(found) : "";
  return own.empty() || own == text_of(found->ai_addr, found->ai_addrlen);
}

/// Says after some seconds that others are waited for.
class Waiting {
 public:
  explicit Waiting(const TcpMeeting& meeting) : meeting_(meeting) {}
  void look() {
    constexpr double kLong = 5;
    if (!said_ && meeting_.on_wait && watch_.seconds() > kLong) {
      said_ = true;
      meeting_.on_wait(fmt::format("waiting for {} processes to meet at {}: {}", meeting_.size,
                                   meeting_.coordinator,
                                   meeting_.rank == 0 && !is_here(meeting_.coordinator)
                                       ? "that is no address of this host, which has process 0"
                                       : "was kinema started on all hosts?"));
    }
  }
  double seconds() const { return watch_.seconds(); }

 private:
  const TcpMeeting& meeting_;
  Stopwatch watch_;
  bool said_ = false;
};

/// Waits until the coordinator's name means an address that this host has a way to.
std::string wait_for_way(const TcpMeeting& meeting) {
  const HostPort at = parts_of(meeting.coordinator);
  constexpr double kLong = 5;
  bool said = false;
  for (const Stopwatch watch;;) {
    const Addresses found = resolve(at);
    if (std::string own = found ? own_address(found) : ""; !own.empty()) {
      return own;
    }
    check(watch.seconds() < meeting.seconds, "[coordinator_address] `{}`: {} within {:g} s",
          meeting.coordinator,
          found ? "this host has no way to it" : "the host's name could not be resolved",
          meeting.seconds);
    if (!said && meeting.on_wait && watch.seconds() > kLong) {
      said = true;
      meeting.on_wait(
          fmt::format("`{}`: {} yet; tried again for {:g} s", meeting.coordinator,
                      found ? "this host has no way to it" : "the host's name cannot be resolved",
                      meeting.seconds));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

void send(zmq::socket_t& socket, const json& message) {
  socket.send(zmq::buffer(message.dump()), zmq::send_flags::none);
}

/// Nothing for what is no message of ours.
std::optional<json> parsed(const zmq::message_t& message) {
  if (message.size() > kLongest) {
    return std::nullopt;
  }
  json out = json::parse(message.to_string_view(), nullptr, /*allow_exceptions=*/false);
  const bool ours = out.is_object() && out.value("kinema", json(0)) == json(kProtocol);
  return ours ? std::optional(std::move(out)) : std::nullopt;
}

bool wait_for(zmq::socket_t& socket, std::chrono::milliseconds most) {
  std::array<zmq::pollitem_t, 1> items = {{{socket.handle(), 0, ZMQ_POLLIN, 0}}};
  return zmq::poll(items.data(), items.size(), most) > 0;
}

}  // namespace

zmq::socket_t make_socket(zmq::context_t& context, zmq::socket_type type) {
  zmq::socket_t socket(context, type);
  socket.set(zmq::sockopt::sndhwm, 0);
  socket.set(zmq::sockopt::rcvhwm, 0);
  socket.set(zmq::sockopt::ipv6, true);
  // A thousand processes connect at once: those that find no place try again seconds later.
  constexpr int kAtOnce = 4096;
  socket.set(zmq::sockopt::backlog, kAtOnce);
  socket.set(zmq::sockopt::linger, 5000);  // ms: what was sent last arrives
  return socket;
}

std::string listen_for(zmq::socket_t& socket, const TcpMeeting& meeting) {
  const std::string own = wait_for_way(meeting);
  try {
    socket.bind(fmt::format("tcp://{}:*", own));
  } catch (const zmq::error_t& error) {
    fail("[world] cannot listen on {}: {}", own, error.what());
  }
  return socket.get(zmq::sockopt::last_endpoint);
}

/// Another process, as it says itself.
struct Coordinator::Guest {
  std::string identity;  // of its connection
  int64_t rank = 0;
  int64_t size = 0;
  std::string address;

  /// Nothing for what no process says.
  static std::optional<Guest> from(zmq::socket_t& socket) {
    zmq::message_t identity;
    zmq::message_t text;
    if (!socket.recv(identity) || !identity.more() || !socket.recv(text)) {
      return std::nullopt;
    }
    const bool one_part = !text.more();
    for (zmq::message_t rest; socket.get(zmq::sockopt::rcvmore) && socket.recv(rest);) {
    }
    const std::optional<json> said = one_part ? parsed(text) : std::nullopt;
    const auto is = [&](const char* name, json::value_t type) {
      return said->contains(name) && said->at(name).type() == type;
    };
    using Type = json::value_t;
    constexpr uint64_t kMost = 1 << 20;
    if (!said || !is("rank", Type::number_unsigned) || !is("size", Type::number_unsigned) ||
        !is("address", Type::string) || said->at("rank").get<uint64_t>() > kMost ||
        said->at("size").get<uint64_t>() > kMost) {
      return std::nullopt;
    }
    return Guest{.identity = identity.to_string(),
                 .rank = said->at("rank"),
                 .size = said->at("size"),
                 .address = said->at("address")};
  }
};

Coordinator::Coordinator(zmq::context_t& context, const TcpMeeting& meeting)
    : meeting_(meeting), socket_(make_socket(context, zmq::socket_type::router)) {
  const HostPort at = parts_of(meeting.coordinator);
  // A name of this host, or of a service before it: then on all its addresses.
  const Addresses found = resolve(at);
  std::string own = found ? text_of(found->ai_addr, found->ai_addrlen) : "*";
  for (;;) {
    try {
      socket_.bind(fmt::format("tcp://{}:{}", own, at.port));
      return;
    } catch (const zmq::error_t& error) {
      const bool elsewhere = error.num() == EADDRNOTAVAIL || error.num() == ENODEV;
      check(
          elsewhere && own != "*",
          "[coordinator_address] process 0 cannot listen on {}: {}\n  two processes with "
          "process_id=0, which is the default? Else another port: coordinator_address={}:PORT for "
          "all",
          meeting.coordinator, error.what(), at.host);
      own = "*";
    }
  }
}

Met Coordinator::gather(const std::string& own) {
  std::vector<Guest> guests;
  std::vector<std::string> addresses(static_cast<size_t>(meeting_.size));
  addresses.front() = own;
  Waiting waiting(meeting_);
  while (std::ssize(guests) + 1 < meeting_.size || forget_gone(guests, addresses)) {
    waiting.look();
    if (wait_for(socket_, std::chrono::milliseconds(100))) {
      std::optional<Guest> guest = Guest::from(socket_);
      if (!guest) {
        continue;
      }
      forget_gone(guests, addresses);
      guests.push_back(*guest);
      if (guest->size != meeting_.size) {
        refuse(guests, fmt::format("[num_processes] process {} was told of {}, process 0 of {}",
                                   guest->rank, guest->size, meeting_.size));
      }
      std::string* const place =
          guest->rank < meeting_.size ? &addresses[static_cast<size_t>(guest->rank)] : nullptr;
      if (place == nullptr || !place->empty()) {
        refuse(guests, place == nullptr
                           ? fmt::format("[process_id] a process at {} has the number {} of {}",
                                         guest->address, guest->rank, meeting_.size)
                           : fmt::format("[process_id] two processes have the number {}: at {} and "
                                         "{}\n  each needs its own, from 0",
                                         guest->rank, *place, guest->address));
      }
      *place = guest->address;
    } else if (waiting.seconds() > meeting_.seconds) {
      forget_gone(guests, addresses);
      std::vector<int64_t> missing;
      for (int64_t rank = 0; rank < meeting_.size; ++rank) {
        if (addresses[static_cast<size_t>(rank)].empty()) {
          missing.push_back(rank);
        }
      }
      refuse(guests, fmt::format("[world] {} did not come to {} within {:g} s\n  each is started "
                                 "with its own process_id; its host must reach that port",
                                 ranks_text(missing), meeting_.coordinator, meeting_.seconds));
    }
  }
  Met met{
      .session = (static_cast<uint64_t>(std::random_device()()) << 32U) | std::random_device()(),
      .addresses = std::move(addresses)};
  for (const Guest& guest : guests) {
    socket_.send(zmq::buffer(guest.identity), zmq::send_flags::sndmore);
    send(socket_, {{"kinema", kProtocol}, {"session", met.session}, {"addresses", met.addresses}});
  }
  return met;
}

bool Coordinator::forget_gone(std::vector<Guest>& guests, std::vector<std::string>& addresses) {
  // Told an error of a message without a connection, which else is dropped.
  socket_.set(zmq::sockopt::router_mandatory, true);
  const auto gone = std::erase_if(guests, [&](const Guest& guest) {
    try {
      socket_.send(zmq::buffer(guest.identity), zmq::send_flags::sndmore);
      socket_.send(zmq::message_t(), zmq::send_flags::none);  // which it takes for no answer
      return false;
    } catch (const zmq::error_t&) {
      addresses[static_cast<size_t>(guest.rank)].clear();
      return true;
    }
  });
  socket_.set(zmq::sockopt::router_mandatory, false);
  return gone > 0;
}

void Coordinator::refuse(const std::vector<Guest>& guests, const std::string& why) {
  for (const Guest& guest : guests) {
    socket_.send(zmq::buffer(guest.identity), zmq::send_flags::sndmore);
    send(socket_, {{"kinema", kProtocol}, {"error", why}});
  }
  fail("{}", why);
}

void Coordinator::refuse_late() {
  while (wait_for(socket_, std::chrono::milliseconds(0))) {
    if (const std::optional<Guest> guest = Guest::from(socket_)) {
      socket_.send(zmq::buffer(guest->identity), zmq::send_flags::sndmore);
      send(socket_,
           {{"kinema", kProtocol},
            {"error", fmt::format("[world] all {} processes of the run at {} are there already\n  "
                                  "does an earlier run still go on?",
                                  meeting_.size, meeting_.coordinator)}});
    }
  }
}

Met meet(zmq::context_t& context, const TcpMeeting& meeting, const std::string& own) {
  zmq::socket_t socket = make_socket(context, zmq::socket_type::dealer);
  const HostPort at = parts_of(meeting.coordinator);
  socket.connect(fmt::format("tcp://{}:{}",
                             at.host.find(':') == std::string::npos ? at.host : '[' + at.host + ']',
                             at.port));
  send(socket, {{"kinema", kProtocol},
                {"rank", static_cast<uint64_t>(meeting.rank)},
                {"size", static_cast<uint64_t>(meeting.size)},
                {"address", own}});
  // Process 0 waits as long for the last of them, and says who it was.
  const double longest = meeting.seconds + 10;
  for (Waiting waiting(meeting); waiting.seconds() < longest;) {
    waiting.look();
    zmq::message_t message;
    if (!wait_for(socket, std::chrono::milliseconds(100)) || !socket.recv(message)) {
      continue;
    }
    const std::optional<json> said = parsed(message);
    if (!said) {
      continue;
    }
    try {
      check(!said->contains("error"), "{}", said->value("error", ""));
      Met met{.session = said->at("session").get<uint64_t>(),
              .addresses = said->at("addresses").get<std::vector<std::string>>()};
      if (std::ssize(met.addresses) == meeting.size) {
        return met;
      }
    } catch (const json::exception&) {
      continue;  // no process 0 says that
    }
  }
  socket.set(zmq::sockopt::linger, 0);
  fail(
      "[world] process 0 did not answer at {} within {:g} s\n  is it started, and does this host "
      "reach that port?",
      meeting.coordinator, longest);
}

}  // namespace kinema::world
