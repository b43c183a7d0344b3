#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kinema/pjrt/client.h"

namespace kinema::runtime {

/// Compiled programs on disk, one file each, shared by processes.
///
/// Files that are not valid ExecutableFiles with the right key are ignored and rebuilt, never
/// passed to the plugin.
class ExecutableCache {
 public:
  /// Creates the folder if it is missing. If that fails, or nothing can be written to it, entries
  /// are not stored.
  ExecutableCache(std::string folder, int64_t max_bytes);

  /// 32 hexadecimal digits, from program, options, the plugin's content, platform, and the CPU's
  /// features.
  static std::string key(const pjrt::Client& client, std::string_view program,
                         std::string_view compile_options);

  /// The stored bytes, or nothing if there is no valid entry. Never throws.
  std::optional<std::string> find(const std::string& key) const;
  /// Stores an entry and removes the oldest beyond the limit. Returns false if it cannot be
  /// written, which is not an error.
  bool put(const std::string& key, std::string_view bytes) const;
  /// Removes an unusable entry.
  void drop(const std::string& key) const;

 private:
  std::string path(const std::string& key) const;
  void trim() const;

  std::string folder_;
  int64_t max_bytes_;
};

}  // namespace kinema::runtime
