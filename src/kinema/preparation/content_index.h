#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

#include "kinema/data/clip_set.h"

namespace kinema::preparation {

/// A cache of results of reading files completely, mainly of hashes, by the stamp of the file
/// (data::file_stamp): unchanged clips and models are not read again.
///
/// Stored in a file that may be deleted at any time. Thread-safe.
class ContentIndex {
 public:
  /// An unreadable file is treated as an empty one.
  explicit ContentIndex(std::filesystem::path file);

  /// The value stored for the stamp, or else the result of `read`, which is then stored.
  std::string learn(const std::string& stamp, const std::function<std::string()>& read);
  /// A hash of the names and contents of a folder's files, including subfolders; for a file, of its
  /// contents.
  std::string hash_of(const std::filesystem::path& path);
  /// Of the bytes of a clip. Throws an Error if it cannot be read.
  std::string hash_of(const data::ClipSet& clips, int64_t clip);
  /// Writes the file if there are new values; throws an Error if that fails.
  void save();

 private:
  std::filesystem::path file_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::string> notes_;
  bool changed_ = false;
};

}  // namespace kinema::preparation
