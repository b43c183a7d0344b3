#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace kinema::serve {

/// What a picture or video file is.
struct Look {
  bool is_video = false;
  int64_t width = 0;
  int64_t height = 0;
  int64_t frames = 1;
  double seconds = 0;
  std::filesystem::path thumb;  // a JPEG of at most 320 pixels; empty: none
  std::string problem;          // why it cannot be used; empty: it can
};

/// Looks at files in a process of its own, which is limited in memory and time: decoders read what
/// anyone may have made. What was seen is kept until a file changes. Safe to use from several
/// threads, which wait for each other.
class Looks {
 public:
  /// `command` gets the folder of thumbnails and the files, and prints a JSON list (`kinema look`).
  /// Removes the thumbnails of an earlier server.
  Looks(std::vector<std::string> command, std::filesystem::path folder);

  /// One for each file. Throws an Error if the process fails as a whole.
  std::vector<Look> at(std::span<const std::filesystem::path> files);

 private:
  struct Key {
    std::string path;
    uintmax_t bytes = 0;
    int64_t time = 0;
    auto operator<=>(const Key&) const = default;
  };
  static Key key_of(const std::filesystem::path& file);
  void look(std::span<const std::filesystem::path> files);

  std::vector<std::string> command_;
  std::filesystem::path folder_;
  std::mutex mutex_;
  std::map<Key, Look> seen_;
};

}  // namespace kinema::serve
