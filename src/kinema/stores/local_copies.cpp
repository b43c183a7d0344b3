#include "kinema/stores/local_copies.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/remote/store_cache.h"
#include "kinema/runtime/client.h"

namespace kinema::stores {
namespace {

namespace fs = std::filesystem;

/// Logs lines of background transfers; it has a copy of the job, which it may outlive.
std::function<void(const std::string&)> log_function(const Job& job) {
  return [job](const std::string& line) { job.notice(line); };
}

}  // namespace

fs::path stores_folder() { return fs::path(runtime::cache_folder()) / "stores"; }

std::string below(const std::string& path, const std::string& name) {
  return path.ends_with('/') ? path + name : path + "/" + name;
}

remote::DownloadProgress download_progress(const std::string& name, const Job& job) {
  return [tell = job.progress("MB of " + name)](int64_t done, int64_t total) {
    constexpr int64_t kMegabyte = 1'000'000;
    tell(done / kMegabyte, std::max<int64_t>(total / kMegabyte, 1));
  };
}

std::string local_copy(const std::string& path, const Job& job) {
  const auto stored = remote::read_store_path(path);
  if (!stored) {
    return path;
  }
  return remote::fetch_from_store(*stored, {.cache = stores_folder() / "read"},
                                  download_progress(path, job))
      .string();
}

std::string watched_copy(const std::string& run) {
  const auto stored = remote::read_store_path(run);
  if (!stored) {
    return run;
  }
  const auto choose = [](std::vector<std::string> names) {
    std::erase_if(names, [](const std::string& name) {
      const std::string file = fs::path(name).filename().string();
      return name != "metrics.jsonl" && name != "config.yml" && file != "manifest.json" &&
             file != "contact_sheet.png";
    });
    return names;
  };
  return remote::fetch_from_store(*stored, {.cache = stores_folder() / "read", .choose = choose})
      .string();
}

std::string staging_folder(const std::string& path) {
  const auto stored = remote::read_store_path(path);
  return stored ? (stores_folder() / "written" / stored->scheme / stored->bucket / stored->name)
                      .string()
                : path;
}

std::unique_ptr<remote::Mirror> make_mirror(const std::string& path, const std::string& local,
                                            const Job& job, std::vector<std::string> except) {
  const auto stored = remote::read_store_path(path);
  if (!stored) {
    return nullptr;
  }
  return std::make_unique<remote::Mirror>(
      local, remote::Store(*stored),
      remote::MirrorOptions{.except = std::move(except), .say = log_function(job)});
}

fs::path local_model(const std::string& name, const std::string& revision,
                     const remote::Wanted& wanted, const Job& job) {
  std::error_code ignored;
  if (name.empty() || fs::exists(name, ignored)) {
    return name;
  }
  if (const auto path = remote::read_store_path(name)) {
    return remote::fetch_from_store(*path,
                                    {.cache = stores_folder() / "read",
                                     .choose =
                                         [&](const std::vector<std::string>& names) {
                                           return remote::choose_files(names, wanted, name);
                                         }},
                                    download_progress(name, job));
  }
  const auto id = remote::read_hub_id(name, revision.empty() ? "main" : revision);
  if (!id || fs::is_directory(fs::path(name).parent_path(), ignored)) {
    return name;  // a path: its folder exists, so a local file was meant
  }
  remote::Wanted all = wanted;
  if (!id->file.empty()) {
    all = {.file = id->file};
  }
  return remote::fetch_from_hub(*id, all, remote::HubOptions::from_environment(),
                                download_progress(id->repo, job));
}

fs::path local_dataset(
    const std::string& name,
    const std::function<std::vector<std::string>(std::vector<std::string>)>& choose,
    const Job& job) {
  auto id = remote::read_hub_id(name);
  check(id.has_value() && id->file.empty(),
        "[config] the data set `{}` is neither a local path nor an id like org/name", name);
  id->dataset = true;
  return remote::fetch_from_hub(*id, {.choose = choose}, remote::HubOptions::from_environment(),
                                download_progress(id->repo, job));
}

}  // namespace kinema::stores
