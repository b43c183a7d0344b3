#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "kinema/data/clip_set.h"

namespace kinema::preparation {

/// What was learned by reading something whole, most of all its hash, by the stamp of what was read
/// (data::file_stamp): clips and models are not read again to learn that they are still the same.
///
/// Kept in a file that may be deleted at any time. Safe to use from many threads.
class ContentIndex {
 public:
  /// An unreadable file counts as an empty one.
  explicit ContentIndex(std::filesystem::path file);

  /// What is noted under the stamp, or else what `read` gives, which is then noted.
  std::string learn(const std::string& stamp, const std::function<std::string()>& read);
  /// Hash over the names and contents of a folder's files, those of folders in it included; of a
  /// file, of its content.
  std::string hash_of(const std::filesystem::path& path);
  /// Of the bytes of a clip. Throws an Error where it cannot be read.
  std::string hash_of(const data::ClipSet& clips, int64_t clip);
  /// Writes the file if something was noted; throws an Error when the disk refuses.
  void save();

 private:
  std::filesystem::path file_;
  std::mutex mutex_;
  std::map<std::string, std::string> notes_;
  bool changed_ = false;
};

}  // namespace kinema::preparation
