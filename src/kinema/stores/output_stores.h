#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "kinema/job/job.h"
#include "kinema/remote/mirror.h"

/// Folders that `kinema prepare` and `kinema generate` write to, in a store or on this machine.
namespace kinema::stores {

/// A folder of shards that `kinema prepare` writes, with its cached files.
class RecordStore {
 public:
  /// For a folder in a store, downloads the existing files.
  RecordStore(const std::string& folder, const Job& job);

  /// The folder as in the configuration.
  const std::string& path() const { return path_; }
  /// The local folder to write to.
  const std::string& local() const { return local_; }
  void hint();
  /// Uploads the rest. Throws an Error if that fails.
  void finish();

 private:
  std::string path_;
  std::string local_;
  std::unique_ptr<remote::Mirror> mirror_;
};

/// The folder of new videos: they are written to a local folder, then uploaded to video_folder's
/// store.
class VideoStore {
 public:
  VideoStore(const std::string& folder, Job job);

  /// The names of existing files in the store; empty for a local folder, which can be listed
  /// directly. In process 0, which writes the list of videos, metadata.jsonl, it is downloaded so
  /// that lines can be appended.
  std::set<std::string> names() const;
  /// Uploads all files in the folder, then removes the local ones. Throws an Error if that fails.
  void finish();
  bool is_remote() const { return !local_.empty(); }
  /// The local folder to write to; empty if none was given.
  const std::string& local() const { return local_.empty() ? path_ : local_; }
  /// A file's path in the folder of the configuration.
  std::string path(const std::filesystem::path& file) const;

 private:
  std::string path_;
  Job job_;
  std::string local_;  // empty: `path_` is local
};

}  // namespace kinema::stores
