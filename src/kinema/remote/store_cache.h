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
  Patience patience = store_patience();
  /// Of the names below the path, those that are wanted; nothing: all.
  std::function<std::vector<std::string>(const std::vector<std::string>&)> choose = {};
};

/// The local copy of what lies below a store's path, or of the one object that it names; what is
/// not there or has changed is brought first, some files at a time. Copies of what is no longer in
/// the store go.
///
/// Throws an Error as Store does, when there is nothing, or when the disk has no room for it.
std::filesystem::path fetch_from_store(const StorePath& path, const StoreCacheOptions& options,
                                       const DownloadProgress& progress = {});

}  // namespace kinema::remote
