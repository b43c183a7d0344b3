#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/preparation/shard_folder.h"

namespace kinema::preparation {

using Tensors = std::map<std::string, HostArray>;

/// Tensors in separate files, found by the settings that produced them.
///
/// A file's name is the hash of its settings, which are also in the file, so that a file of other
/// settings is never used; a checksum detects corruption. Files are written atomically, so several
/// processes may write to one folder.
class TensorStore {
 public:
  /// Creates the folder; throws an Error if that fails.
  explicit TensorStore(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  /// The state of a file, without reading its tensors.
  struct Found {
    bool exists = false;
    std::string damage;  // a line with the file's name: it is truncated, or has other settings

    bool is_valid() const { return exists && damage.empty(); }
  };
  Found find(const Settings& settings) const;
  /// Throws an Error with the file's name if it is missing or corrupt. If the tensors' bytes are
  /// corrupt, which `find` does not check, the file is removed.
  Tensors read(const Settings& settings) const;
  /// Overwrites an existing file. Throws an Error if the disk fails.
  void write(const Settings& settings, const Tensors& tensors) const;

 private:
  std::filesystem::path file(const Settings& settings) const;

  std::filesystem::path folder_;
};

}  // namespace kinema::preparation
