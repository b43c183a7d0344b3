#include "kinema/remote/repo_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;

bool is_commit(const std::string& text) {
  return text.size() == 40 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

void check_plain(const std::string& text, const char* what) {
  check(is_plain_path(text), "[remote] the {} `{}` cannot be a path", what, text.substr(0, 120));
}

}  // namespace

bool is_plain_path(const std::string& path) {
  constexpr size_t kMost = 1024;  // the maximum length of an object's name in a store
  if (path.size() > kMost) {
    return false;
  }
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool plain = !part.empty() && part != "." && part != ".." && part.size() <= 200 &&
                       std::ranges::none_of(part, [](char c) {
                         return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\';
                       });
    if (!plain) {
      return false;
    }
    begin = end + 1;
  }
  return true;
}

RepoCache::RepoCache(fs::path cache, std::string name)
    : cache_(std::move(cache)), name_(std::move(name)) {
  check_plain(name_, "name");
}

fs::path RepoCache::snapshot(const std::string& commit) const {
  check_plain(commit, "commit");
  return cache_ / name_ / "snapshots" / commit;
}

fs::path RepoCache::blob(const std::string& etag) const {
  check(is_plain_path(etag) && etag.find('/') == std::string::npos,
        "[remote] the server's etag `{}` cannot be a file name", etag.substr(0, 120));
  return cache_ / name_ / "blobs" / etag;
}

fs::path RepoCache::lock(const std::string& etag) const {
  return cache_ / ".locks" / name_ / (blob(etag).filename().string() + ".lock");
}

std::optional<std::string> RepoCache::commit_of(const std::string& revision) const {
  check_plain(revision, "revision");
  std::error_code ignored;
  if (is_commit(revision)) {
    return fs::is_directory(snapshot(revision), ignored) ? std::optional(revision) : std::nullopt;
  }
  const fs::path ref = cache_ / name_ / "refs" / revision;
  if (!fs::is_regular_file(ref, ignored)) {
    return std::nullopt;
  }
  std::string commit = io::read_text(ref, 4096);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == ' ')) {
    commit.pop_back();
  }
  return is_plain_path(commit) ? std::optional(commit) : std::nullopt;
}

void RepoCache::set_ref(const std::string& revision, const std::string& commit) const {
  check_plain(revision, "revision");
  if (revision == commit) {
    return;
  }
  const fs::path ref = cache_ / name_ / "refs" / revision;
  fs::create_directories(ref.parent_path());
  io::write_file(ref, commit);
}

fs::path RepoCache::listing_file(const std::string& commit) const {
  check_plain(commit, "commit");
  return cache_ / name_ / "listings" / (commit + ".json");
}

std::optional<std::vector<std::string>> RepoCache::listing(const std::string& commit) const {
  const fs::path file = listing_file(commit);
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) {
    return std::nullopt;
  }
  try {
    const io::Json listed = io::Json::read(file);
    std::vector<std::string> out;
    for (const io::Json& path : listed.items()) {
      out.push_back(path.as_string());
    }
    return out;
  } catch (const Error&) {
    return std::nullopt;  // corrupt: the hub can be queried again
  }
}

void RepoCache::set_listing(const std::string& commit,
                            const std::vector<std::string>& paths) const {
  const fs::path file = listing_file(commit);
  io::Json listed = io::Json::array();
  for (const std::string& path : paths) {
    listed.append(path);
  }
  try {
    io::make_folder(file.parent_path());
    io::write_file(file, listed.dump(-1) + "\n");
  } catch (const Error&) {  // the cache may be read-only; the hub can be queried again
  }
}

void RepoCache::link(const std::string& commit, const std::string& path,
                     const std::string& etag) const {
  check_plain(path, "file name");
  const fs::path at = snapshot(commit) / path;
  const fs::path target = blob(etag);
  std::error_code error;
  fs::create_directories(at.parent_path());
  if (fs::exists(at, error) && fs::equivalent(at, target, error)) {
    return;
  }
  // Created under another name and renamed, because another thread or process may create the same
  // link.
  static std::atomic<int64_t> links = 0;
  const fs::path fresh = fmt::format("{}.{}-{}.new", at.string(), ::getpid(), links++);
  fs::remove(fresh, error);
  fs::create_symlink(fs::relative(target, at.parent_path()), fresh, error);
  if (error) {
    fs::copy_file(target, fresh, fs::copy_options::overwrite_existing);
  }
  fs::rename(fresh, at);
}

}  // namespace kinema::remote
