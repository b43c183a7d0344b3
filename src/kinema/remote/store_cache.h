#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kinema/remote/hub.h"
#include "kinema/remote/store.h"

namespace kinema::remote {

struct StoreCacheOptions {
  /// CACHE/SCHEME/BUCKET/NAME is the local copy of an object.
  std::filesystem::path cache;
  int connections = 8;
  Timeouts timeouts = store_timeouts();
  /// Selects from the names below the path; nothing: all.
  std::function<std::vector<std::string>(const std::vector<std::string>&)> choose = {};
};

/// The local copy of the objects below a store's path, or of the single object; missing and changed
/// files are downloaded first, several at a time. Copies of objects that are no longer in the store
/// are removed.
///
/// Throws an Error as Store does, if there is nothing, or if the disk does not have enough space.
std::filesystem::path fetch_from_store(const StorePath& path, const StoreCacheOptions& options,
                                       const DownloadProgress& progress = {});

}  // namespace kinema::remote
