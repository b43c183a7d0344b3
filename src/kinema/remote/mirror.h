#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kinema/remote/store.h"

namespace kinema::remote {

struct MirrorOptions {
  /// How long what changed may wait.
  int64_t period_s = 60;
  /// Names below the folder (and all below those) that are not written.
  std::vector<std::string> except = {};
  /// Told once when the store cannot be written, and once when it can again; from another thread,
  /// which ends where this throws: the next flush() throws it.
  std::function<void(const std::string&)> say = {};
};

/// Writes the files of a local folder to a store, as they change, from a thread of its own. Files
/// are never removed there. Names that begin with a dot stay here; `.sent` of them records what was
/// written, so that a later process does not write it again.
class Mirror {
 public:
  Mirror(std::filesystem::path folder, Store store, MirrorOptions options);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  /// Ends without another try.
  ~Mirror();

  const Store& store() const { return store_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Makes the folder what the store's is: brings files (those that `wanted` is true for; nothing:
  /// all) that are not here or were changed there, and removes those that were written and are gone
  /// from there. What was changed here and not written yet stays. To be called before start().
  void bring(const std::function<bool(const std::string& name)>& wanted = {});
  /// Begins to write what changes.
  void start();
  /// Writes what changed without waiting for the period; returns at once.
  void hint();
  /// Writes what changed. Throws an Error when the store cannot be written.
  void flush();

 private:
  /// Of a local file.
  struct Version {
    int64_t size = -1;
    int64_t time = 0;
    bool operator==(const Version&) const = default;
  };

  static Version version_of(const std::filesystem::path& path);
  bool is_ours(const std::filesystem::directory_entry& entry) const;
  void read_record();
  void write_record() const;
  void run(const std::stop_token& stop);
  void write_all();
  void write_changed();

  std::filesystem::path folder_;
  Store store_;
  MirrorOptions options_;
  std::mutex writing_;                   // one pass at a time
  std::map<std::string, Version> sent_;  // guarded by writing_
  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool hinted_ = false;
  std::exception_ptr error_;  // what `say` threw
  std::jthread thread_;
};

}  // namespace kinema::remote
