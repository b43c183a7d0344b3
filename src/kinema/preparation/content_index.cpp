#include "kinema/preparation/content_index.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/hash.h"
#include "kinema/io/json.h"

namespace kinema::preparation {

namespace fs = std::filesystem;

ContentIndex::ContentIndex(fs::path file) : file_(std::move(file)) {
  std::error_code ignored;
  if (!fs::exists(file_, ignored)) {
    return;
  }
  try {
    const io::Json json = io::Json::read(file_);
    for (const auto& [stamp, note] : json.members()) {
      notes_[stamp] = note.as_string();
    }
  } catch (const Error&) {
    notes_.clear();  // everything is read again, and the file rewritten
  }
}

std::string ContentIndex::learn(const std::string& stamp,
                                const std::function<std::string()>& read) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = notes_.find(stamp); found != notes_.end()) {
      return found->second;
    }
  }
  std::string out = read();
  const std::lock_guard lock(mutex_);
  notes_[stamp] = out;
  changed_ = true;
  return out;
}

std::string ContentIndex::hash_of(const fs::path& path) {
  const auto content = [&](const fs::path& file) {
    return learn(data::file_stamp(file), [&] { return io::hash_file(file); });
  };
  if (fs::is_regular_file(path)) {
    return content(path);
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) {  // or a link to one, as in the hub's cache
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  io::Hasher all;
  for (const fs::path& file : files) {
    const std::string text = file.lexically_relative(path).string() + '\0' + content(file);
    all.update(std::as_bytes(std::span(text.data(), text.size())));
  }
  return all.hex();
}

std::string ContentIndex::hash_of(const data::ClipSet& clips, int64_t clip) {
  return learn(clips.stamp(clip), [&] { return clips.hash(clip); });
}

void ContentIndex::save() {
  const std::lock_guard lock(mutex_);
  if (!changed_) {
    return;
  }
  std::vector<io::Json::Member> members;
  members.reserve(notes_.size());
  for (const auto& [stamp, note] : notes_) {
    members.emplace_back(stamp, note);
  }
  std::ranges::sort(members, {},
                    [](const auto& member) -> const std::string& { return member.first; });
  std::error_code ignored;  // writing the file reports the error
  fs::create_directories(file_.parent_path(), ignored);
  io::write_file(file_, io::Json::object(std::move(members)).dump(0) + "\n");
  changed_ = false;
}

}  // namespace kinema::preparation
