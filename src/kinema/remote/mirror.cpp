#include "kinema/remote/mirror.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <system_error>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/core/thread_priority.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"
#include "kinema/io/json.h"

namespace kinema::remote {

namespace fs = std::filesystem;

namespace {

constexpr const char* kRecord = ".sent";
constexpr int kTransfers = 4;

}  // namespace

Mirror::Mirror(fs::path folder, Store store, MirrorOptions options)
    : folder_(std::move(folder)), store_(std::move(store)), options_(std::move(options)) {
  read_record();
}

Mirror::~Mirror() {
  thread_.request_stop();
  wake_.notify_all();
}

Mirror::Version Mirror::version_of(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) {
    return {};
  }
  const auto time = fs::last_write_time(path, error).time_since_epoch().count();
  return {static_cast<int64_t>(size), static_cast<int64_t>(time)};
}

bool Mirror::is_ours(const fs::directory_entry& entry) const {
  const std::string name = entry.path().lexically_relative(folder_).generic_string();
  return !entry.path().filename().string().starts_with('.') &&
         std::ranges::find(options_.except, name) == options_.except.end();
}

void Mirror::read_record() {
  try {
    const io::Json record = io::Json::read(folder_ / kRecord);
    for (const auto& [name, version] : record.members()) {
      sent_[name] = {version.items().at(0).as_int(), version.items().at(1).as_int()};
    }
  } catch (const std::exception&) {
    sent_.clear();  // without it everything is uploaded again
  }
}

void Mirror::write_record() const {
  io::Json record = io::Json::object();
  for (const auto& [name, version] : sent_) {
    record.set(name, io::Json::array({io::Json(version.size), io::Json(version.time)}));
  }
  io::write_file(folder_ / kRecord, record.dump(-1));
}

void Mirror::bring(const std::function<bool(const std::string& name)>& wanted) {
  const std::scoped_lock lock(writing_);
  io::make_folder(folder_);
  std::vector<StoredFile> missing;
  std::set<std::string> there;
  for (StoredFile& file : store_.list()) {
    there.insert(file.name);
    const Version local = version_of(folder_ / file.name);
    const auto sent = sent_.find(file.name);
    // If both sides changed, the local one has steps that the other lacks.
    const bool changed_here = local.size >= 0 && (sent == sent_.end() || sent->second != local);
    if ((!wanted || wanted(file.name)) && local.size != file.size && !changed_here &&
        !file.name.empty()) {
      missing.push_back(std::move(file));
    }
  }
  for_each_in_parallel(missing.size(), kTransfers, [&](size_t i) {
    const fs::path to = folder_ / missing[i].name;
    io::make_folder(to.parent_path());
    store_.download(missing[i], to);
  });
  for (const StoredFile& file : missing) {
    sent_[file.name] = version_of(folder_ / file.name);
  }
  for (auto each = sent_.begin(); each != sent_.end();) {
    const bool gone = !there.contains(each->first);
    if (gone && version_of(folder_ / each->first) == each->second) {
      std::error_code ignored;
      fs::remove(folder_ / each->first, ignored);
    }
    each = gone ? sent_.erase(each) : std::next(each);
  }
  write_record();
}

void Mirror::start() {
  // If it ends with an error, flush() uploads the rest, or throws.
  thread_ = start_thread([this](const std::stop_token& stop) { run(stop); },
                         [](const std::exception_ptr&) {});
}

void Mirror::hint() {
  const std::scoped_lock lock(mutex_);
  hinted_ = true;
  wake_.notify_all();
}

void Mirror::flush() {
  {
    const std::scoped_lock lock(mutex_);
    if (const std::exception_ptr error = std::exchange(error_, nullptr)) {
      std::rethrow_exception(error);
    }
  }
  write_all();
}

void Mirror::write_all() {
  try {
    write_changed();
  } catch (const fs::filesystem_error& error) {
    fail("[remote] {} cannot be read: {}", folder_.string(), errno_text(error.code()));
  }
}

void Mirror::run(const std::stop_token& stop) {
  lower_thread_priority();
  bool failed = false;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, std::chrono::seconds(options_.period_s),
                     [this] { return hinted_; });
      hinted_ = false;
    }
    if (stop.stop_requested()) {
      return;
    }
    std::string said;
    try {
      write_all();
      said = failed ? store_.path().text() + " can be written again" : "";
      failed = false;
    } catch (const std::exception& error) {
      said = failed ? "" : std::string(error.what()) + "\n  uploads are retried during the run";
      failed = true;
    }
    if (!said.empty() && options_.say) {
      try {
        options_.say(said);
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        error_ = std::current_exception();
        return;
      }
    }
  }
}

void Mirror::write_changed() {
  const std::scoped_lock lock(writing_);
  if (!fs::is_directory(folder_)) {
    return;
  }
  bool changed = false;
  for (auto entry = fs::recursive_directory_iterator(folder_);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (!is_ours(*entry)) {
      if (entry->is_directory()) {
        entry.disable_recursion_pending();
      }
      continue;
    }
    std::error_code error;  // it may be renamed or removed meanwhile
    if (!entry->is_regular_file(error) || error) {
      continue;
    }
    const std::string name = entry->path().lexically_relative(folder_).generic_string();
    // Before it is read: bytes added meanwhile are another change.
    const Version version = version_of(entry->path());
    const auto sent = sent_.find(name);
    if (version.size < 0 || (sent != sent_.end() && sent->second == version)) {
      continue;
    }
    store_.upload(entry->path(), name);
    sent_[name] = version;
    changed = true;
  }
  if (changed) {
    write_record();
  }
}

}  // namespace kinema::remote
