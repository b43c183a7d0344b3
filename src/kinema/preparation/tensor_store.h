#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/preparation/shard_folder.h"

namespace kinema::preparation {

using Tensors = std::map<std::string, HostArray>;

/// Tensors in files of their own, found by the settings that made them.
///
/// A file's name is the hash of its settings and the file holds them, so that what other settings
/// made is never taken for it; a checksum finds damage. Files appear whole or not at all, so
/// several processes may write to one folder.
class TensorStore {
 public:
  /// Makes the folder; throws an Error when it cannot be made.
  explicit TensorStore(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  /// What is known of a file without reading its tensors.
  struct Found {
    bool is_there = false;
    std::string damage;  // a line that names the file: it was cut short, or is another one's

    bool is_whole() const { return is_there && damage.empty(); }
  };
  Found find(const Settings& settings) const;
  /// Throws an Error that names the file when it is missing or damaged. Damage that `find` does not
  /// see, in the bytes of tensors, removes the file.
  Tensors read(const Settings& settings) const;
  /// Over what is there. Throws an Error when the disk refuses.
  void write(const Settings& settings, const Tensors& tensors) const;

 private:
  std::filesystem::path file(const Settings& settings) const;

  std::filesystem::path folder_;
};

}  // namespace kinema::preparation
