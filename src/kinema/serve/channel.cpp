#include "kinema/serve/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "kinema/core/error.h"

namespace kinema::serve {
namespace {

constexpr size_t kMaxLine = 16 << 20;
constexpr int kSendTime = 5000;  // milliseconds

}  // namespace

bool Channel::send(const io::Json& message) {
  const std::string line = message.dump(-1) + "\n";
  const std::lock_guard lock(sending_);
  for (size_t sent = 0; sent < line.size();) {
    pollfd wait{.fd = socket_.get(), .events = POLLOUT};
    if (poll(&wait, 1, kSendTime) != 1) {
      return false;
    }
    const ssize_t got =
        ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
      return false;
    }
    sent += got > 0 ? static_cast<size_t>(got) : 0;
  }
  return true;
}

std::optional<io::Json> Channel::receive(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (!is_ended_) {
    if (const size_t end = received_.find('\n'); end != std::string::npos) {
      const std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      try {
        return io::Json::parse(line, "the other process");
      } catch (const Error&) {
        is_ended_ = true;
        break;
      }
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd wait{.fd = socket_.get(), .events = POLLIN};
    const int ready = poll(&wait, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready == 0) {
      return std::nullopt;
    }
    char bytes[65536];
    const ssize_t got = ready < 0 ? -1 : recv(socket_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0) {
      received_.append(bytes, static_cast<size_t>(got));
    }
    is_ended_ =
        got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN) || received_.size() > kMaxLine;
  }
  return std::nullopt;
}

}  // namespace kinema::serve
