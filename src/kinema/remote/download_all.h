#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kinema/remote/download.h"
#include "kinema/remote/repo_cache.h"

namespace kinema::remote {

/// A file of a repository and where it goes.
struct Download {
  std::string path;  // inside the repository
  std::string etag;  // the name of its contents
  RemoteFile file;
};

struct DownloadOptions {
  int connections = 4;
  Patience patience = {};
  /// Throws what an answer that is no success means.
  std::function<void(const Response&, const std::string& what)> refused = {};
};

/// Brings those of the files that the cache lacks, some at a time, and links all of them into the
/// snapshot. Throws the first Error; files that came whole by then stay. Before anything comes, an
/// Error says when the disk has no room for all.
void download_all(const std::vector<Download>& downloads, const RepoCache& cache,
                  const std::string& commit, const DownloadOptions& options,
                  const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace kinema::remote
