#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "remote/http.h"

namespace kinema::remote {

/// A file on a server and what is known of it before it comes.
struct RemoteFile {
  std::string what;  // for messages: `vae/config.json of Wan-AI/Wan2.1-T2V-1.3B-Diffusers`
  std::string url;
  std::vector<std::string> headers;
  int64_t size = -1;     // -1: not known
  std::string sha256;    // hexadecimal; empty: not known
  std::string git_sha1;  // of git's blob object; empty: not known; needs the size
  std::optional<uint32_t> crc32c = {};
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
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  int fd_;
};

}  // namespace kinema::remote
