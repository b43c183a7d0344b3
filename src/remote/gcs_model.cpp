#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"
#include "remote/digest.h"
#include "remote/download_all.h"
#include "remote/gcs.h"
#include "remote/repo_cache.h"

namespace kinema::remote {

namespace fs = std::filesystem;

fs::path fetch_from_gs(const GsPath& path, const Wanted& wanted, const GcsOptions& options,
                       const DownloadProgress& progress) {
  const GcsBucket bucket(path.bucket, options);
  const std::string source = "gs://" + path.bucket + "/" + path.name;
  const bool one_file = path.name.ends_with(".safetensors");
  const size_t slash = path.name.rfind('/');
  const std::string folder =
      one_file ? path.name.substr(0, slash == std::string::npos ? 0 : slash) : path.name;
  const std::string prefix = folder.empty() ? "" : folder + "/";
  std::map<std::string, GcsObject> objects;
  std::vector<std::string> names;
  for (GcsObject& object : bucket.list(one_file ? path.name : prefix)) {
    const std::string name = object.name.substr(prefix.size());
    if (is_plain_path(name)) {  // markers of folders end in a slash
      names.push_back(name);
      objects.emplace(name, std::move(object));
    }
  }
  check(!names.empty(), "[gs] {} does not exist, or holds nothing", source);
  const Wanted chosen = one_file ? Wanted{.file = path.name.substr(prefix.size())} : wanted;
  std::vector<Download> downloads;
  Digest listing(Digest::Kind::SHA1);  // 40 digits, as the cache wants commits
  for (const auto& [name, object] : objects) {
    listing.update(fmt::format("{} {}\n", name, object.generation));
  }
  for (const std::string& name : choose_files(names, chosen, source)) {
    const GcsObject& object = objects.at(name);
    downloads.push_back({.path = name,
                         .etag = fmt::format("{}-{:08x}-{}", object.generation,
                                             object.crc32c.value_or(0), object.size),
                         .file = bucket.remote_file(object)});
  }
  std::string key = "gs--" + path.bucket + "--" + folder;
  std::ranges::replace(key, '/', '-');
  // Names that differ in slashes only, or are too long for a folder, are told apart by a digest.
  Digest full(Digest::Kind::SHA1);
  full.update(source);
  const RepoCache cache(options.cache, key.substr(0, 120) + "-" + full.hex().substr(0, 12));
  const std::string commit = listing.hex();
  download_all(downloads, cache, commit,
               {.connections = options.connections, .patience = options.patience}, progress);
  return chosen.file.empty() ? cache.snapshot(commit) : cache.snapshot(commit) / chosen.file;
}

}  // namespace kinema::remote
