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
  Promise promise;
};

/// Brings a file to `to`, beside which `to`.incomplete holds what has come so far; another process
/// that wants the same file waits. A transfer that breaks or stalls is tried again from where it
/// stopped, and so is one that an earlier run left.
///
/// `on_bytes` is told how many bytes have come, those of earlier runs included. Throws an Error
/// when the file does not come, has another size, or is not what its digest says (then the
/// incomplete file is removed); answers that are refusals come as `refused` tells them.
void download(const RemoteFile& file, const std::filesystem::path& to,
              const std::filesystem::path& lock, const Patience& patience,
              const std::function<void(int64_t bytes)>& on_bytes,
              const std::function<void(const Response&)>& refused);

/// A lock that other processes respect, held while the object lives; waits for it. The file stays.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);

 private:
  io::Descriptor file_;
};

}  // namespace kinema::remote
