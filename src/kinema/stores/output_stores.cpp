#include "kinema/stores/output_stores.h"

#include <cstdlib>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/sample/output.h"
#include "kinema/stores/local_copies.h"

namespace kinema::stores {

namespace fs = std::filesystem;

RecordStore::RecordStore(const std::string& folder, const Job& job)
    : path_(folder), local_(folder) {
  auto stored = remote::read_store_path(folder);
  if (!stored) {
    return;
  }
  const size_t slash = stored->name.rfind('/');
  const std::string name = stored->name.substr(slash == std::string::npos ? 0 : slash + 1);
  check(!name.empty(), "[config] {} is a bucket, expected a folder in one", folder);
  // A separate folder, because the caches next to the shards go to the parent folder.
  const fs::path local =
      stores_folder() / "prepared" / stored->scheme / stored->bucket / (stored->name + ".staging");
  local_ = (local / name).string();
  stored->name.resize(slash == std::string::npos ? 0 : slash);
  mirror_ = std::make_unique<remote::Mirror>(
      local, remote::Store(*stored),
      remote::MirrorOptions{.say = [job](const std::string& line) { job.notice(line); }});
  mirror_->bring([&](const std::string& each) {
    return each.starts_with(name + "/") || each.starts_with(name + ".");
  });
  mirror_->start();
}

void RecordStore::hint() {
  if (mirror_) {
    mirror_->hint();
  }
}

void RecordStore::finish() {
  if (mirror_) {
    mirror_->flush();
  }
}

VideoStore::VideoStore(const std::string& folder, Job job) : path_(folder), job_(std::move(job)) {
  if (remote::is_store_path(folder)) {
    io::make_folder(stores_folder() / "videos");
    std::string name = (stores_folder() / "videos" / "XXXXXX").string();
    check(::mkdtemp(name.data()) != nullptr, "[generate] no folder can be created in {}",
          (stores_folder() / "videos").string());
    local_ = name;
  }
}

std::set<std::string> VideoStore::names() const {
  std::set<std::string> out;
  if (local_.empty()) {
    return out;
  }
  const remote::Store store(*remote::read_store_path(path_));
  for (const remote::StoredFile& file : store.list()) {
    out.insert(file.name.substr(0, file.name.find('/')));  // the folder of frames
    if (file.name == sample::kVideoList && job_.world().is_first()) {
      store.download(file, fs::path(local_) / file.name);
    }
  }
  return out;
}

void VideoStore::finish() {
  if (local_.empty()) {
    return;
  }
  try {
    make_mirror(path_, local_, job_)->flush();
  } catch (const Error& error) {
    const std::string what = error.what();
    fail("{}\n  the files are in {}", what.substr(0, what.find('\n')), local_);
  }
  std::error_code ignored;
  fs::remove_all(local_, ignored);
}

std::string VideoStore::path(const fs::path& file) const {
  return local_.empty() ? file.string()
                        : below(path_, file.lexically_relative(local_).generic_string());
}

}  // namespace kinema::stores
