#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "kinema/job/job.h"
#include "kinema/remote/mirror.h"

/// Folders that `kinema prepare` and `kinema generate` write to, in a store or on this machine.
namespace kinema::stores {

/// A folder of shards that `kinema prepare` writes, with the files that it keeps beside it.
class RecordStore {
 public:
  /// Of a folder in a store, downloads what the store has.
  RecordStore(const std::string& folder, const Job& job);

  /// The folder as the user named it.
  const std::string& path() const { return path_; }
  /// The folder of this machine to write to.
  const std::string& local() const { return local_; }
  void hint();
  /// Writes what is left. Throws an Error when it cannot.
  void finish();

 private:
  std::string path_;
  std::string local_;
  std::unique_ptr<remote::Mirror> mirror_;
};

/// Videos that are made: written to a folder of this machine, then sent to video_folder's store.
class VideoStore {
 public:
  VideoStore(const std::string& folder, Job job);

  /// The names that are taken in the store; none for a folder of this machine, which can be asked.
  /// The list of what is there, metadata.jsonl, is brought here, so that it can grow; to process 0,
  /// which writes it.
  std::set<std::string> names() const;
  /// Sends all files below the folder, then removes them here. Throws an Error when it cannot.
  void finish();
  bool is_remote() const { return !local_.empty(); }
  /// The folder of this machine to write to; empty where none was given.
  const std::string& local() const { return local_.empty() ? path_ : local_; }
  /// A file's path as the user would name it.
  std::string path(const std::filesystem::path& file) const;

 private:
  std::string path_;
  Job job_;
  std::string local_;  // empty: `path_` is one of this machine
};

}  // namespace kinema::stores
