#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kinema/io/descriptor.h"
#include "kinema/remote/http.h"
#include "kinema/remote/partial_file.h"

namespace kinema::remote {

/// A file on a server.
struct RemoteFile {
  std::string url;
  std::vector<std::string> headers;
  ExpectedContent expected;
};

/// Downloads a file to `to`, with the partial file `to`.incomplete next to it; another process that
/// downloads the same file waits. An interrupted or stalled transfer is resumed, also one of an
/// earlier process.
///
/// `on_bytes` receives the bytes so far, including those of earlier processes. Throws an Error if
/// the file cannot be downloaded, has another size, or does not match its digest (the partial file
/// is then removed); `refused` reports HTTP errors.
void download(const RemoteFile& file, const std::filesystem::path& to,
              const std::filesystem::path& lock, const Timeouts& timeouts,
              const std::function<void(int64_t bytes)>& on_bytes,
              const std::function<void(const Response&)>& refused);

/// A lock between processes, held while the object exists; waits for it. The file stays.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);

 private:
  io::Descriptor file_;
};

}  // namespace kinema::remote
