#include "kinema/remote/store_cache.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/io/folder.h"

namespace kinema::remote {

namespace fs = std::filesystem;

namespace {

void remove_others(const fs::path& root, const std::set<std::string>& names) {
  std::vector<fs::path> others;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    const std::string name = entry.path().lexically_relative(root).generic_string();
    // Files that start with a dot are partial.
    if (!entry.is_directory() && !names.contains(name) &&
        !entry.path().filename().string().starts_with('.')) {
      others.push_back(entry.path());
    }
  }
  for (const fs::path& path : others) {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
}

void check_room(int64_t wanted, const fs::path& folder, const StorePath& path) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  check(error || wanted <= static_cast<int64_t>(space.available),
        "[remote] {} needs {:.1f} GB in {}, {:.1f} GB are free\n"
        "  set KINEMA_CACHE to a folder on a larger disk",
        path.text(), static_cast<double>(wanted) / 1e9, folder.string(),
        static_cast<double>(space.available) / 1e9);
}

}  // namespace

fs::path fetch_from_store(const StorePath& path, const StoreCacheOptions& options,
                          const DownloadProgress& progress) {
  const Store store(path, options.timeouts);
  std::map<std::string, StoredFile> files;
  std::vector<std::string> names;
  for (StoredFile& file : store.list()) {
    names.push_back(file.name);
    files.emplace(file.name, std::move(file));
  }
  check(!names.empty(), "[remote] {} does not exist, or holds nothing", path.text());
  const std::set<std::string> there(names.begin(), names.end());
  const bool one = names.size() == 1 && names[0].empty();
  if (options.choose && !one) {
    names = options.choose(names);
  }
  const fs::path root = options.cache / path.scheme / path.bucket / path.name;
  const auto local = [&](const std::string& name) { return one ? root : root / name; };
  std::vector<StoredFile> missing;
  int64_t total = 0;
  int64_t done = 0;
  int64_t on_the_way = 0;
  for (const std::string& name : names) {
    const StoredFile& file = files.at(name);
    total += file.size;
    if (is_copy(local(name), file)) {
      done += file.size;
    } else {
      missing.push_back(file);
      on_the_way += std::min(file.size, partial_bytes(local(name)));
    }
  }
  io::make_folder(one ? root.parent_path() : root);
  check_room(total - done - on_the_way, one ? root.parent_path() : root, path);
  std::mutex mutex;
  for_each_in_parallel(missing.size(), options.connections, [&](size_t i) {
    const fs::path to = local(missing[i].name);
    io::make_folder(to.parent_path());
    int64_t told = 0;
    store.download(missing[i], to, "", [&](int64_t bytes) {
      const std::scoped_lock lock(mutex);
      done += bytes - told;
      told = bytes;
      if (progress) {
        progress(done, total);
      }
    });
  });
  if (!one) {
    remove_others(root, there);
  }
  return root;
}

}  // namespace kinema::remote
