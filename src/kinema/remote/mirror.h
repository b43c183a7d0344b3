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
  /// How long changes may wait.
  int64_t period_s = 60;
  /// Names below the folder (including everything below them) that are not uploaded.
  std::vector<std::string> except = {};
  /// Called once when the store cannot be written, and once when it can be again; from another
  /// thread, which ends if this throws: the next flush() rethrows.
  std::function<void(const std::string&)> say = {};
};

/// Uploads changed files of a local folder to a store, from a separate thread. Files are never
/// removed from the store. Names that start with a dot are not uploaded; `.sent` among them lists
/// the uploaded versions, so that a later process does not upload them again.
class Mirror {
 public:
  Mirror(std::filesystem::path folder, Store store, MirrorOptions options);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  /// Stops without another upload.
  ~Mirror();

  const Store& store() const { return store_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Makes the folder equal to the store's: downloads files (those for which `wanted` is true;
  /// nothing: all) that are missing or were changed in the store, and removes uploaded files that
  /// were removed from the store. Local changes that were not uploaded stay. Call it before
  /// start().
  void bring(const std::function<bool(const std::string& name)>& wanted = {});
  /// Starts to upload changes.
  void start();
  /// Uploads changes without waiting for the period; returns immediately.
  void hint();
  /// Uploads changes. Throws an Error if the store cannot be written.
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
  std::exception_ptr error_;  // thrown by `say`
  std::jthread thread_;
};

}  // namespace kinema::remote
