#include "kinema/remote/download.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;

/// One request for the missing part. Returns the reason of a failure, or an empty string.
std::string fetch_rest(const RemoteFile& file, PartialFile& partial, const Timeouts& timeouts,
                       const std::function<void(int64_t)>& on_bytes,
                       const std::function<void(const Response&)>& refused) {
  Request request{.url = file.url, .headers = file.headers};
  request.headers.emplace_back("Accept-Encoding: identity");
  const int64_t start = partial.size();
  if (start > 0) {
    request.headers.push_back(fmt::format("Range: bytes={}-", start));
  }
  request.on_begin = [&](const Response& response) {
    const std::string range = fmt::format("bytes {}-", start);
    const bool continues =
        response.status == 206 && response.header("content-range").starts_with(range);
    if (start > 0 && !continues && response.status / 100 == 2) {
      partial.restart();  // the server sends the complete file
    }
  };
  request.sink = [&](std::span<const std::byte> bytes) {
    partial.append(bytes);
    if (on_bytes) {
      on_bytes(partial.size());
    }
  };
  Timeouts once = timeouts;
  once.retries = 0;
  Response response;
  try {
    response = send_following(std::move(request), once);
  } catch (const NetworkError& error) {
    return error.what();
  }
  if (response.status == 416) {
    partial.restart();
    return "[remote] the server did not resume the transfer";
  }
  if (is_transient(response.status)) {
    return fmt::format("[remote] {} answers {}", origin_of(file.url), response.status);
  }
  if (response.status != 200 && response.status != 206) {
    refused(response);
    fail("[remote] {}: {} answers {}", file.expected.what, origin_of(file.url), response.status);
  }
  if (file.expected.size >= 0 && partial.size() < file.expected.size) {
    return fmt::format("[remote] {} ended early", origin_of(file.url));
  }
  return "";
}

}  // namespace

FileLock::FileLock(const fs::path& path)
    : file_(io::Descriptor::open(path, O_RDWR | O_CREAT, 0644)) {
  check(file_ && io::lock(file_, io::Lock::WAIT), "[remote] cannot write {}: {}", path.string(),
        errno_text(errno));
}

void download(const RemoteFile& file, const fs::path& to, const fs::path& lock,
              const Timeouts& timeouts, const std::function<void(int64_t)>& on_bytes,
              const std::function<void(const Response&)>& refused) {
  fs::create_directories(to.parent_path());
  fs::create_directories(lock.parent_path());
  const FileLock held(lock);
  if (fs::exists(to)) {
    return;
  }
  const fs::path incomplete = to.string() + ".incomplete";
  PartialFile partial(incomplete, file.expected);
  std::string problem;
  for (int attempt = 1; !partial.is_complete(); ++attempt) {
    const int64_t before = partial.size();
    problem = fetch_rest(file, partial, timeouts, on_bytes, refused);
    if (problem.empty()) {
      break;
    }
    constexpr int64_t kProgress = 1 << 20;
    if (partial.size() >= before + kProgress) {
      attempt = 1;  // progress on a poor line resets the count
    }
    if (attempt > timeouts.retries) {
      const bool some = partial.size() > 0;
      const std::string part =
          some ? fmt::format(" completely ({} of {} bytes)", partial.size(),
                             file.expected.size >= 0 ? fmt::format("{}", file.expected.size) : "?")
               : "";
      fail("[remote] {} was not downloaded{}: {}\n  {}", file.expected.what, part,
           without_module(problem),
           some ? "the received part is kept: run again to continue"
                : "check the network, then run again");
    }
    back_off(timeouts, attempt);
  }
  partial.verify();
  partial.publish(to);
}

}  // namespace kinema::remote
