#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kinema::remote {

/// One repository's folder in the layout that huggingface_hub's cache has:
///
///     CACHE/NAME/blobs/ETAG                  contents
///     CACHE/NAME/snapshots/COMMIT/PATH       links to them
///     CACHE/NAME/refs/REVISION               the commit that a branch or tag was at
///     CACHE/.locks/NAME/ETAG.lock
///
/// and, of our own, which others leave alone:
///
///     CACHE/NAME/listings/COMMIT.json        all paths that the repository has at a commit
///
/// Names from a server are checked before they become paths.
class RepoCache {
 public:
  RepoCache(std::filesystem::path cache, std::string name);

  std::filesystem::path snapshot(const std::string& commit) const;
  std::filesystem::path blob(const std::string& etag) const;
  std::filesystem::path lock(const std::string& etag) const;
  /// The commit of a revision, itself when it is one, or nothing when it is not in the cache.
  std::optional<std::string> commit_of(const std::string& revision) const;
  void set_ref(const std::string& revision, const std::string& commit) const;
  /// What set_listing noted; nothing where it did not.
  std::optional<std::vector<std::string>> listing(const std::string& commit) const;
  void set_listing(const std::string& commit, const std::vector<std::string>& paths) const;
  /// Makes snapshots/COMMIT/PATH a link to the blob (a copy where links cannot be made).
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
