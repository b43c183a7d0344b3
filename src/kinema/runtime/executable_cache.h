#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kinema/pjrt/client.h"

namespace kinema::runtime {

/// Compiled programs on disk, one file each, shared by processes.
///
/// What is not a valid ExecutableFile under its own key is ignored and rebuilt, never handed to the
/// plugin.
class ExecutableCache {
 public:
  /// Makes the folder when it is missing. Where that cannot be, or nothing can be written to it,
  /// entries are not kept.
  ExecutableCache(std::string folder, int64_t max_bytes);

  /// 32 hexadecimal digits over program, options, the plugin's content, platform, and the CPU's
  /// features.
  static std::string key(const pjrt::Client& client, std::string_view program,
                         std::string_view compile_options);

  /// The stored bytes, or nothing when there is no valid entry. Never throws.
  std::optional<std::string> find(const std::string& key) const;
  /// Stores an entry and drops the oldest beyond the limit. False when the disk does not take it:
  /// a cache that cannot be written is no reason to stop.
  bool put(const std::string& key, std::string_view bytes) const;
  /// Removes an entry that turned out unusable.
  void drop(const std::string& key) const;

 private:
  std::string path(const std::string& key) const;
  void trim() const;

  std::string folder_;
  int64_t max_bytes_;
};

}  // namespace kinema::runtime
