#include "kinema/environments/connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "kinema/core/errno_text.h"

namespace kinema::environments {
namespace {

/// For poll(2), rounded up so that it does not return early again and again.
int milliseconds_until(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  constexpr int64_t kMost = 1'000'000;
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, kMost));
}

void make_nonblocking(const io::Descriptor& file) {
  fcntl(file.get(), F_SETFL, fcntl(file.get(), F_GETFL) | O_NONBLOCK);
}

/// Connects a socket; returns 0 or the errno of the failure.
int connected(const io::Descriptor& file, const addrinfo& to, Deadline deadline) {
  if (file && connect(file.get(), to.ai_addr, to.ai_addrlen) == 0) {
    return 0;
  }
  if (errno != EINPROGRESS) {
    return errno;
  }
  pollfd wanted{.fd = file.get(), .events = POLLOUT, .revents = 0};
  if (poll(&wanted, 1, milliseconds_until(deadline)) != 1) {
    return ETIMEDOUT;
  }
  int error = 0;
  socklen_t size = sizeof(error);
  return getsockopt(file.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

[[noreturn]] void fail_lost(const char* what, int error) {
  throw ServerLost(fmt::format("{}: {}", what, errno_text(error)));
}

}  // namespace

Deadline deadline_in(double seconds) {
  constexpr double kYear = 365.0 * 24 * 3600;
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(std::clamp(seconds, 0.0, kYear)));
}

Connection::Connection(io::Descriptor socket, io::Descriptor printed, const std::string& output)
    : socket_(std::move(socket)), printed_(std::move(printed)) {
  make_nonblocking(socket_);
  if (printed_) {
    make_nonblocking(printed_);
  }
  if (!output.empty()) {
    constexpr mode_t kMode = 0644;
    output_ = io::Descriptor::open(output, O_WRONLY | O_CREAT | O_APPEND, kMode);
    check(static_cast<bool>(output_), "[environments] cannot open {}: {}", output,
          errno_text(errno));
  }
}

void Connection::send(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      wait(POLLOUT, deadline);
    } else if (errno != EINTR) {
      fail_lost("it has ended", errno);
    }
  }
}

void Connection::receive(std::span<std::byte> bytes, Deadline deadline) {
  const size_t before = std::min(rest_.size(), bytes.size());
  std::memcpy(bytes.data(), rest_.data(), before);
  rest_.erase(0, before);
  bytes = bytes.subspan(before);
  while (!bytes.empty()) {
    const ssize_t count = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<size_t>(count));
    } else if (count == 0) {
      throw ServerLost("it has ended");
    } else if (errno == EAGAIN) {
      wait(POLLIN, deadline);
    } else if (errno != EINTR) {
      fail_lost("it has ended", errno);
    }
  }
}

std::string Connection::line(Deadline deadline) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  constexpr size_t kAtOnce = 65536;
  size_t end = 0;
  while ((end = rest_.find('\n')) == std::string::npos) {
    check(rest_.size() <= kMostBytes,
          "[environments] a server of environments sent a line of more than 1 MiB");
    std::array<char, kAtOnce> more{};
    const ssize_t count = recv(socket_.get(), more.data(), more.size(), 0);
    if (count > 0) {
      rest_.append(more.data(), static_cast<size_t>(count));
    } else if (count == 0) {
      throw ServerLost("it has ended");
    } else if (errno == EAGAIN) {
      wait(POLLIN, deadline);
    } else if (errno != EINTR) {
      fail_lost("it has ended", errno);
    }
  }
  std::string out = rest_.substr(0, end);
  rest_.erase(0, end + 1);
  return out;
}

void Connection::wait(short events, Deadline deadline) {
  while (true) {
    std::array<pollfd, 2> files{{{.fd = socket_.get(), .events = events, .revents = 0},
                                 {.fd = printed_.get(), .events = POLLIN, .revents = 0}}};
    const int left = milliseconds_until(deadline);
    const int ready = poll(files.data(), files.size(), left);
    if (ready == 0 && left == 0) {
      throw ServerLost("it does not answer");
    }
    if (files[1].revents != 0) {
      read_printed();
    }
    if (files[0].revents != 0) {
      return;
    }
  }
}

void Connection::read_printed() {
  constexpr size_t kAtOnce = 65536;
  constexpr size_t kKept = 4096;
  std::array<char, kAtOnce> text{};
  while (printed_) {
    const ssize_t count = read(printed_.get(), text.data(), text.size());
    if (count > 0) {
      const auto size = static_cast<size_t>(count);
      if (output_) {
        // A full disk must not end the training.
        (void)io::write_all(output_, std::as_bytes(std::span(text.data(), size)));
      }
      tail_.append(text.data(), size);
      if (tail_.size() > kKept) {
        tail_.erase(0, tail_.size() - kKept);
      }
      if (size < text.size()) {
        return;
      }
    } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
      printed_.close();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

std::string Connection::last_printed() {
  read_printed();
  const size_t end = tail_.find_last_not_of(" \n\r\t");
  if (end == std::string::npos) {
    return "";
  }
  const size_t begin = tail_.find_last_of('\n', end);
  return tail_.substr(begin == std::string::npos ? 0 : begin + 1,
                      end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

io::Descriptor connect_to_server(const std::string& address, Deadline deadline) {
  const size_t colon = address.rfind(':');
  check(colon != std::string::npos && colon > 0 && colon + 1 < address.size(),
        "[environments] the address of a remote group is `{}`, expected HOST:PORT", address);
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (failure != 0) {
    throw ServerLost(fmt::format("{}: {}", address, gai_strerror(failure)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  int error = 0;
  for (const addrinfo* each = all.get(); each != nullptr; each = each->ai_next) {
    io::Descriptor out(
        socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, each->ai_protocol));
    error = connected(out, *each, deadline);
    if (error == 0) {
      const int on = 1;
      setsockopt(out.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      return out;
    }
  }
  throw ServerLost(fmt::format("{} cannot be reached: {}", address, errno_text(error)));
}

}  // namespace kinema::environments
