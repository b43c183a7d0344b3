#include "kinema/remote/download_all.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <numeric>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/io/folder.h"

namespace kinema::remote {
namespace {

namespace fs = std::filesystem;

int64_t size_of(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

/// Bytes of a file that exist already, complete or partial.
int64_t bytes_there(const Download& download, const RepoCache& cache) {
  const fs::path blob = cache.blob(download.etag);
  const int64_t there = std::max(size_of(blob), size_of(blob.string() + ".incomplete"));
  return download.file.expected.size < 0 ? there : std::min(there, download.file.expected.size);
}

void check_room(int64_t bytes, const fs::path& folder) {
  const std::string why = io::write_problem(folder);
  check(why.empty(),
        "[remote] {} cannot be written: {}\n  set HF_HUB_CACHE to a folder that can be",
        folder.string(), why);
  std::error_code error;
  const auto space = fs::space(folder, error);
  check(error || bytes <= static_cast<int64_t>(space.available),
        "[remote] {:.1f} GB are to come, but {} has room for {:.1f} GB\n  set HF_HUB_CACHE to a "
        "folder on a larger disk",
        static_cast<double>(bytes) / 1e9, folder.string(),
        static_cast<double>(space.available) / 1e9);
}

/// Downloads the files, several at a time.
class Work {
 public:
  Work(const std::vector<Download>& downloads, const RepoCache& cache, const std::string& commit,
       const DownloadOptions& options,
       const std::function<void(int64_t done, int64_t total)>& progress)
      : downloads_(downloads),
        cache_(cache),
        commit_(commit),
        options_(options),
        progress_(progress),
        done_(downloads.size()) {
    for (size_t i = 0; i < downloads.size(); ++i) {
      done_[i] = bytes_there(downloads[i], cache);
      total_ += std::max<int64_t>(downloads[i].file.expected.size, 0);
    }
  }

  int64_t missing() const {
    return total_ - std::accumulate(done_.begin(), done_.end(), int64_t{0});
  }

  void operator()() {
    for_each_in_parallel(downloads_.size(), options_.connections, [this](size_t i) { bring(i); });
  }

 private:
  void bring(size_t i) {
    const Download& each = downloads_[i];
    download(
        each.file, cache_.blob(each.etag), cache_.lock(each.etag), options_.timeouts,
        [&](int64_t bytes) { tell(i, bytes); },
        [&](const Response& response) {
          if (options_.refused) {
            options_.refused(response, each.file.expected.what);
          }
        });
    tell(i, std::max<int64_t>(each.file.expected.size, 0));
    cache_.link(commit_, each.path, each.etag);
  }

  void tell(size_t i, int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    done_[i] = bytes;
    if (progress_) {
      progress_(std::accumulate(done_.begin(), done_.end(), int64_t{0}), total_);
    }
  }

  const std::vector<Download>& downloads_;
  const RepoCache& cache_;
  const std::string& commit_;
  const DownloadOptions& options_;
  const std::function<void(int64_t, int64_t)>& progress_;
  std::vector<int64_t> done_;
  int64_t total_ = 0;
  std::mutex mutex_;  // guards done_ and progress_
};

}  // namespace

void download_all(const std::vector<Download>& downloads, const RepoCache& cache,
                  const std::string& commit, const DownloadOptions& options,
                  const std::function<void(int64_t done, int64_t total)>& progress) {
  Work work(downloads, cache, commit, options, progress);
  check_room(work.missing(), cache.snapshot(commit).parent_path().parent_path());
  work();
}

}  // namespace kinema::remote
