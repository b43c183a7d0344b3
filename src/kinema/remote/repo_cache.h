#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kinema::remote {

/// One repository's folder in the layout of huggingface_hub's cache:
///
///     CACHE/NAME/blobs/ETAG                  contents
///     CACHE/NAME/snapshots/COMMIT/PATH       links to them
///     CACHE/NAME/refs/REVISION               the commit that a branch or tag was at
///     CACHE/.locks/NAME/ETAG.lock
///
/// and kinema's own, which other programs ignore:
///
///     CACHE/NAME/listings/COMMIT.json        all paths that the repository has at a commit
///
/// Names from a server are validated before they are used as paths.
class RepoCache {
 public:
  RepoCache(std::filesystem::path cache, std::string name);

  std::filesystem::path snapshot(const std::string& commit) const;
  std::filesystem::path blob(const std::string& etag) const;
  std::filesystem::path lock(const std::string& etag) const;
  /// The commit of a revision (itself if it is a commit), or nothing if it is not in the cache.
  std::optional<std::string> commit_of(const std::string& revision) const;
  void set_ref(const std::string& revision, const std::string& commit) const;
  /// The paths of set_listing; nothing if there are none.
  std::optional<std::vector<std::string>> listing(const std::string& commit) const;
  void set_listing(const std::string& commit, const std::vector<std::string>& paths) const;
  /// Makes snapshots/COMMIT/PATH a link to the blob (a copy if links are not supported).
  void link(const std::string& commit, const std::string& path, const std::string& etag) const;

 private:
  std::filesystem::path listing_file(const std::string& commit) const;

  std::filesystem::path cache_;
  std::string name_;
};

/// True for a relative path of plain names: no `..`, no empty part, no control characters, at most
/// 1024 bytes.
bool is_plain_path(const std::string& path);

}  // namespace kinema::remote
