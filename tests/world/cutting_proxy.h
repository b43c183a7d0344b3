#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <regex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/world/tcp_socket.h"

namespace kinema::world {

/// A proxy between the processes of a run on this host, which cuts each connection after a random
/// number of bytes, anywhere in the stream. It changes the addresses that processes exchange at
/// `address` to its own, so that they connect through it.
class CuttingProxy {
 public:
  /// Connections between processes carry `shortest` to `longest` bytes; those for meeting at most a
  /// thousand.
  CuttingProxy(const std::string& coordinator, uint64_t seed, double shortest, double longest)
      : random_(seed), shortest_(shortest), longest_(longest) {
    address_ = door_to(coordinator, /*is_meeting=*/true);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        turn();
      }
    });
  }

  std::string address() const { return address_; }
  int cuts() const { return cuts_; }
  void cut_no_more() { cuts_on_ = false; }

 private:
  struct Door {
    io::Descriptor listening;
    std::string to;
    bool is_meeting = false;
  };
  struct Side {
    io::Descriptor socket;
    std::string unsent;  // data from the other side
  };
  struct Connection {
    std::array<Side, 2> sides;
    int64_t left = 0;  // bytes until it is cut
    bool is_meeting = false;
    bool ended = false;
  };

  std::string door_to(const std::string& to, bool is_meeting) {
    sockaddr_in at{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    io::Descriptor listening = listen_at(reinterpret_cast<const sockaddr*>(&at), sizeof at);
    socklen_t length = sizeof at;
    check(getsockname(listening.get(), reinterpret_cast<sockaddr*>(&at), &length) == 0, "no port");
    doors_.push_back({.listening = std::move(listening), .to = to, .is_meeting = is_meeting});
    return fmt::format("127.0.0.1:{}", ntohs(at.sin_port));
  }

  std::string with_doors(const std::string& text) {
    static const std::regex address("tcp://[^,\"]*127\\.0\\.0\\.1\\]?:([0-9]+)");
    std::string out;
    auto rest = text.cbegin();
    for (std::sregex_iterator each(text.begin(), text.end(), address), end; each != end; ++each) {
      const std::string real = "127.0.0.1:" + (*each)[1].str();
      const bool is_door =
          std::ranges::any_of(door_of_, [&](const auto& known) { return known.second == real; });
      if (!is_door && !door_of_.contains(real)) {
        door_of_[real] = door_to(real, /*is_meeting=*/false);
      }
      out.append(rest, (*each)[0].first);
      out += "tcp://" + (is_door ? real : door_of_[real]);
      rest = (*each)[0].second;
    }
    return out.append(rest, text.cend());
  }

  int64_t bytes_to_carry(bool is_meeting) {
    std::uniform_real_distribution<double> chance;
    if (!cuts_on_) {
      return int64_t{1} << 60;
    }
    return static_cast<int64_t>(is_meeting
                                    ? 1000 * chance(random_)
                                    : shortest_ * std::pow(longest_ / shortest_, chance(random_)));
  }

  void turn() {
    std::vector<pollfd> items;
    for (const Door& each : doors_) {
      items.push_back({.fd = each.listening.get(), .events = POLLIN, .revents = 0});
    }
    for (const auto& each : connections_) {
      for (size_t side : {0, 1}) {
        // Stops reading from one side while the other accepts no more data.
        const bool reads = each->sides[1 - side].unsent.size() < size_t{1} << 20;
        const bool writes = !each->sides[side].unsent.empty();
        items.push_back(
            {.fd = each->sides[side].socket.get(),
             .events = static_cast<int16_t>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0)),
             .revents = 0});
      }
    }
    poll(items.data(), items.size(), 20);
    for (size_t i = 0; i < doors_.size(); ++i) {
      while (std::optional<io::Descriptor> come = accept_from(doors_[i].listening)) {
        auto to = connect_to(parts_of(doors_[i].to), std::chrono::milliseconds(1000));
        if (to) {
          auto made = std::make_unique<Connection>();
          made->sides[0].socket = *std::move(come);
          made->sides[1].socket = *std::move(to);
          made->is_meeting = doors_[i].is_meeting;
          made->left = bytes_to_carry(made->is_meeting);
          connections_.push_back(std::move(made));
        }
      }
    }
    for (const auto& each : connections_) {
      carry(*each, 0);
      carry(*each, 1);
    }
    std::erase_if(connections_, [](const auto& each) { return each->ended; });
  }

  /// Carries one side's data to the other.
  void carry(Connection& connection, size_t from) {
    Side& to = connection.sides[1 - from];
    for (int i = 0; i < 16 && to.unsent.size() < size_t{1} << 20 && !connection.ended; ++i) {
      std::optional<std::string> said = read_some(connection.sides[from].socket);
      if (!said) {
        connection.ended = true;
        break;
      }
      if (said->empty()) {
        break;
      }
      if (connection.is_meeting) {
        said = with_doors(*said);
      }
      const auto most = static_cast<size_t>(std::max<int64_t>(connection.left, 0));
      connection.left -= static_cast<int64_t>(said->size());
      to.unsent += said->substr(0, most);
    }
    if (!to.unsent.empty()) {
      const ssize_t sent = send(to.socket.get(), to.unsent.data(), to.unsent.size(), MSG_NOSIGNAL);
      to.unsent.erase(0, sent > 0 ? static_cast<size_t>(sent) : 0);
    }
    if (connection.left <= 0 && to.unsent.empty() && !connection.ended) {
      // A reset also loses data that the system has not delivered yet.
      const linger reset{.l_onoff = static_cast<int>(random_() % 2), .l_linger = 0};
      for (const Side& each : connection.sides) {
        setsockopt(each.socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      }
      connection.ended = true;
      ++cuts_;
    }
  }

  std::mt19937_64 random_;
  double shortest_;
  double longest_;
  std::string address_;
  std::vector<Door> doors_;
  std::map<std::string, std::string> door_of_;  // by the address that it forwards to
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<int> cuts_ = 0;
  std::atomic<bool> cuts_on_ = true;
  std::jthread thread_;
};

}  // namespace kinema::world
