#include "kinema/preparation/shard_folder.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/json.h"

namespace kinema::preparation {
namespace {

namespace fs = std::filesystem;

/// The folder without `.`, `..` and a trailing slash, so that a suffix can be appended.
fs::path plain(const fs::path& folder) {
  check(!folder.empty(), "[prepare] tfrecords_dir is empty, expected a folder for the shards");
  const fs::path out = fs::absolute(folder).lexically_normal();
  return out.has_filename() ? out : out.parent_path();
}

fs::path beside(const fs::path& folder, const char* ending) {
  fs::path out = folder;
  out += ending;
  return out;
}

bool is_temporary(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(".file_") && name.ends_with(".tmp");
}

/// Any file of the folder that is not hidden; empty: none.
std::string any_file(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.')) {
      return name;
    }
  }
  return "";
}

Settings read_settings(const io::Json& json) {
  Settings out;
  for (const auto& [name, value] : json.members()) {
    out[name] = value.as_string();
  }
  return out;
}

/// The first setting that differs; empty: none.
std::string difference(const Settings& now, const Settings& then) {
  for (const auto& [name, value] : now) {
    const auto found = then.find(name);
    const std::string old = found == then.end() ? "" : found->second;
    if (value != old) {
      return fmt::format("{} is {} now and was {}", name, value.empty() ? "empty" : value,
                         old.empty() ? "empty" : old);
    }
  }
  for (const auto& [name, value] : then) {
    if (!now.contains(name)) {
      return fmt::format("{} was {}", name, value);
    }
  }
  return "";
}

}  // namespace

fs::path contents_path(const fs::path& folder) { return beside(plain(folder), ".contents.json"); }

ShardFolder::ShardFolder(const fs::path& folder, const Settings& settings)
    : folder_(plain(folder)), settings_(settings) {
  std::error_code error;
  fs::create_directories(folder_, error);
  check(!error, "[prepare] {} cannot be made: {}", folder_.string(), errno_text(error));
  hold();
  read(settings);
}

fs::path ShardFolder::state_path() const { return beside(folder_, ".prepare.json"); }
fs::path ShardFolder::skipped_path() const { return beside(folder_, ".skipped.jsonl"); }

// The folder itself is locked: other programs would read a lock file in it as a shard.
void ShardFolder::hold() {
  held_ = io::Descriptor::open(folder_, O_RDONLY | O_DIRECTORY);
  check(static_cast<bool>(held_), "[prepare] {} cannot be opened: {}", folder_.string(),
        errno_text(errno));
  if (!io::lock(held_, io::Lock::TRY)) {
    const int reason = errno;
    check(reason == EWOULDBLOCK, "[prepare] {} cannot be locked: {}", folder_.string(),
          errno_text(reason));
    fail("[prepare] another process is writing to {}", folder_.string());
  }
}

void ShardFolder::read(const Settings& settings) {
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (is_temporary(entry.path())) {
      fs::remove(entry.path());
    }
  }
  const bool known = fs::exists(state_path());
  std::string other;
  if (known) {
    const io::Json state = io::Json::read(state_path());
    other = difference(settings, read_settings(state.at("settings")));
    records_per_shard_ = state.at("records_per_shard").as_int();
    for (const io::Json& each : state.at("shards").items()) {
      shards_.push_back({each.at("name").as_string(), each.at("records").as_int(),
                         each.at("bytes").as_int(), each.at("end_clip").as_int()});
    }
    for (const io::Json& each : state.at("skipped").items()) {
      skipped_.push_back(
          {each.at("clip").as_int(), each.at("file").as_string(), each.at("reason").as_string()});
    }
  }
  const std::string file = any_file(folder_);
  check(other.empty() || file.empty(),
        "[prepare] the shards in {} were made with other settings: {}\n"
        "  give another tfrecords_dir, or delete it and {}",
        folder_.string(), other, state_path().filename().string());
  check(known || file.empty(),
        "[prepare] {} holds {} already, and nothing says how it was made\n"
        "  give a tfrecords_dir that is empty or new",
        folder_.string(), file);

  if (!other.empty()) {
    shards_.clear();  // of other settings, and removed
  }
  // Everything from the first changed shard on is made again.
  const auto valid = [&](const Shard& shard) {
    std::error_code ignored;
    return shard.name.find('/') == std::string::npos && shard.records > 0 &&
           fs::file_size(folder_ / shard.name, ignored) == static_cast<uintmax_t>(shard.bytes);
  };
  shards_.erase(std::ranges::find_if_not(shards_, valid), shards_.end());
  const int64_t end = shards_.empty() ? 0 : shards_.back().end_clip;
  std::erase_if(skipped_, [&](const SkippedClip& each) { return each.clip >= end; });
  if (shards_.empty()) {
    records_per_shard_ = 0;
  }
  write_state();
}

void ShardFolder::add(const Shard& shard, const std::vector<SkippedClip>& skipped,
                      int64_t records_per_shard) {
  shards_.push_back(shard);
  skipped_.insert(skipped_.end(), skipped.begin(), skipped.end());
  records_per_shard_ = records_per_shard;
  write_state();
}

void ShardFolder::write_state() const {
  io::Json settings = io::Json::object();
  for (const auto& [name, value] : settings_) {
    settings.set(name, value);
  }
  io::Json shards = io::Json::array();
  for (const Shard& each : shards_) {
    io::Json shard = io::Json::object();
    shard.set("name", each.name)
        .set("records", each.records)
        .set("bytes", each.bytes)
        .set("end_clip", each.end_clip);
    shards.append(std::move(shard));
  }
  io::Json skipped = io::Json::array();
  for (const SkippedClip& each : skipped_) {
    io::Json clip = io::Json::object();
    clip.set("clip", each.clip).set("file", each.file).set("reason", each.reason);
    skipped.append(std::move(clip));
  }
  io::Json state = io::Json::object();
  state.set("settings", std::move(settings))
      .set("records_per_shard", records_per_shard_)
      .set("shards", std::move(shards))
      .set("skipped", std::move(skipped));
  io::write_file(state_path(), state.dump(1) + "\n");
}

void ShardFolder::write_skipped(const std::vector<SkippedClip>& after_last,
                                const std::vector<data::SkippedFile>& left_out) const {
  std::string text;
  const auto add = [&](const std::string& file, const std::string& reason) {
    io::Json line = io::Json::object();
    line.set("file", file).set("reason", reason);
    text += line.dump(-1) + "\n";
  };
  for (const auto* list : {&skipped_, &after_last}) {
    for (const SkippedClip& each : *list) {
      add(each.file, each.reason);
    }
  }
  for (const data::SkippedFile& each : left_out) {
    add(each.file, each.reason);
  }
  if (text.empty()) {
    fs::remove(skipped_path());  // of an earlier run
  } else {
    io::write_file(skipped_path(), text);
  }
}

}  // namespace kinema::preparation
