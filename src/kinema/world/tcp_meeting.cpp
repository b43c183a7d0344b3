#include "kinema/world/tcp_meeting.h"

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
#include "kinema/world/communicator.h"
#include "kinema/world/tcp_address.h"
#include "kinema/world/tcp_socket.h"

namespace kinema::world {
namespace {

using std::chrono::milliseconds;

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

std::string late_error(const TcpMeeting& meeting) {
  return fmt::format(
      "[world] all {} processes of the run at {} are there already\n  does an earlier run still go "
      "on?",
      meeting.size, meeting.coordinator);
}

}  // namespace

Coordinator::Coordinator(const TcpMeeting& meeting) : meeting_(meeting) {
  const HostPort at = parts_of(meeting.coordinator);
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
        meeting.coordinator, std::generic_category().message(errno), at.host);
}

/// Returns false if the connection can be closed.
bool Coordinator::read(Guest& guest) {
  const std::optional<std::string> more = read_some(guest.socket);
  if (more && more->empty()) {
    return true;
  }
  if (!more || guest.hello) {
    return false;  // it was closed, or sent more than a request
  }
  guest.said += *more;
  const size_t end = guest.said.find('\n');
  if (end == std::string::npos) {
    return guest.said.size() <= Hello::kMostBytes;
  }
  guest.hello = parse_hello(std::string_view(guest.said).substr(0, end));
  return guest.hello && end + 1 == guest.said.size();
}

void Coordinator::look(milliseconds wait, size_t most_guests) {
  constexpr double kPatience = 10;  // seconds for the handshake request
  std::vector<pollfd> items;
  for (const Guest& each : guests_) {
    items.push_back({.fd = each.socket.get(), .events = POLLIN, .revents = 0});
  }
  items.push_back({.fd = socket_.get(), .events = POLLIN, .revents = 0});
  poll(items.data(), items.size(), static_cast<int>(wait.count()));
  auto item = items.begin();
  std::erase_if(guests_, [&](Guest& guest) {
    const bool has_spoken = item++->revents != 0;
    return has_spoken ? !read(guest) : !guest.hello && guest.since.seconds() > kPatience;
  });
  constexpr int kAtOnce = 64;
  for (int i = 0; i < kAtOnce; ++i) {
    std::optional<io::Descriptor> come = accept_from(socket_);
    if (!come) {
      break;
    }
    if (guests_.size() >= most_guests) {  // idle connections make room
      const auto silent =
          std::ranges::find_if(guests_, [](const Guest& guest) { return !guest.hello; });
      if (silent == guests_.end()) {
        break;
      }
      guests_.erase(silent);
    }
    guests_.push_back({.socket = *std::move(come), .said = {}, .since = {}, .hello = {}});
  }
}

std::vector<const Hello*> Coordinator::members() {
  std::vector<const Hello*> out(static_cast<size_t>(meeting_.size));
  for (const Guest& guest : guests_) {
    if (!guest.hello) {
      continue;
    }
    const Hello& hello = *guest.hello;
    if (hello.size != meeting_.size) {
      refuse(fmt::format("[num_processes] process {} was started with {}, process 0 with {}",
                         hello.rank, hello.size, meeting_.size));
    }
    if (hello.rank >= meeting_.size) {
      refuse(fmt::format("[process_id] a process at {} has the number {} of {}", hello.address,
                         hello.rank, meeting_.size));
    }
    const Hello*& place = out[static_cast<size_t>(hello.rank)];
    const bool is_again =
        place != nullptr && place->token == hello.token;  // its connection was interrupted
    if (hello.rank == 0 || (place != nullptr && !is_again)) {
      refuse(fmt::format(
          "[process_id] two processes have the number {}: at {} and {}\n  each needs "
          "its own, from 0",
          hello.rank, hello.rank == 0 ? met_.addresses.front() : place->address, hello.address));
    }
    place = &hello;
  }
  return out;
}

void Coordinator::tell_all(const Answer& answer) {
  const std::string line = line_of(answer);
  for (const Guest& each : guests_) {
    if (each.hello) {
      send_all(each.socket, line, milliseconds(5000));
    }
  }
  guests_.clear();
}

void Coordinator::refuse(const std::string& why) {
  tell_all({.met = {}, .error = why});
  fail("{}", why);
}

Met Coordinator::gather(const std::string& own) {
  met_ = {.secret = random_text(), .addresses = {own}};
  constexpr size_t kStrangers = 64;
  for (Waiting waiting(meeting_);;) {
    waiting.look();
    look(milliseconds(100), static_cast<size_t>(meeting_.size) + kStrangers);
    const std::vector<const Hello*> all = members();
    std::vector<int64_t> missing;
    for (int64_t rank = 1; rank < meeting_.size; ++rank) {
      if (all[static_cast<size_t>(rank)] == nullptr) {
        missing.push_back(rank);
      }
    }
    if (missing.empty()) {
      tokens_ = {""};
      for (size_t rank = 1; rank < all.size(); ++rank) {
        met_.addresses.push_back(all[rank]->address);
        tokens_.push_back(all[rank]->token);
      }
      tell_all({.met = met_, .error = {}});
      return met_;
    }
    if (waiting.seconds() > meeting_.seconds) {
      refuse(
          fmt::format("[world] {} did not come to {} within {:g} s\n  each is started with its "
                      "own process_id; its host must reach that port",
                      ranks_text(missing), meeting_.coordinator, meeting_.seconds));
    }
  }
}

void Coordinator::answer_late() {
  constexpr size_t kMost = 64;
  look(milliseconds(0), kMost);
  std::erase_if(guests_, [&](const Guest& guest) {
    if (!guest.hello) {
      return false;
    }
    const auto rank = static_cast<size_t>(guest.hello->rank);
    const bool known = rank > 0 && rank < tokens_.size() && guest.hello->token == tokens_[rank];
    const std::string line = line_of(known ? Answer{.met = met_, .error = {}}
                                           : Answer{.met = {}, .error = late_error(meeting_)});
    send_all(guest.socket, line, milliseconds(known ? 1000 : 0));
    return true;
  });
}

namespace {

/// The reply of process 0; nothing if the connection ends before, or at the timeout.
std::optional<Answer> read_answer(const io::Descriptor& socket, Waiting& waiting, double longest) {
  std::string said;
  while (waiting.seconds() < longest && said.size() <= Answer::kMostBytes) {
    waiting.look();
    wait_for(socket, milliseconds(100));
    const std::optional<std::string> more = read_some(socket);
    if (!more) {
      break;
    }
    said += *more;
    if (const size_t end = said.find('\n'); end != std::string::npos) {
      return parse_answer(std::string_view(said).substr(0, end));
    }
  }
  return std::nullopt;
}

}  // namespace

Met meet(const TcpMeeting& meeting, const std::string& own) {
  const HostPort at = parts_of(meeting.coordinator);
  const std::string hello = line_of(
      Hello{.rank = meeting.rank, .size = meeting.size, .address = own, .token = random_text()});
  // Process 0 waits as long for the last process, and reports it.
  const double longest = meeting.seconds + 10;
  for (Waiting waiting(meeting); waiting.seconds() < longest;) {
    waiting.look();
    const std::optional<io::Descriptor> socket = connect_to(at, milliseconds(1000));
    if (socket && send_all(*socket, hello, milliseconds(1000))) {
      if (const std::optional<Answer> answer = read_answer(*socket, waiting, longest)) {
        check(answer->error.empty(), "{}", answer->error);
        if (std::ssize(answer->met.addresses) == meeting.size) {
          return answer->met;
        }
      }
    }
    std::this_thread::sleep_for(milliseconds(200));
  }
  fail(
      "[world] process 0 did not answer at {} within {:g} s\n  is it started, and does this host "
      "reach that port?",
      meeting.coordinator, longest);
}

}  // namespace kinema::world
