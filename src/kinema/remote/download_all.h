#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kinema/remote/download.h"
#include "kinema/remote/repo_cache.h"

namespace kinema::remote {

/// A file of a repository and its cache name.
struct Download {
  std::string path;  // inside the repository
  std::string etag;  // the name of its contents
  RemoteFile file;
};

struct DownloadOptions {
  int connections = 4;
  Timeouts timeouts = {};
  /// Throws the Error of an unsuccessful HTTP response.
  std::function<void(const Response&, const std::string& what)> refused = {};
};

/// Downloads the files that the cache lacks, several at a time, and links all of them into the
/// snapshot. Throws the first Error; files that are complete by then stay. If the disk does not
/// have enough space for all, throws an Error before the download.
void download_all(const std::vector<Download>& downloads, const RepoCache& cache,
                  const std::string& commit, const DownloadOptions& options,
                  const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace kinema::remote
