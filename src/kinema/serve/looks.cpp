#include "kinema/serve/looks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/io/json.h"
#include "kinema/serve/child.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;

constexpr auto kTime = std::chrono::seconds(60);
constexpr size_t kMostSeen = 20'000;
constexpr size_t kMostAtOnce = 64;

Look read_look(const io::Json& json) {
  return {.is_video = json.at("is_video").as_bool(),
          .width = json.at("width").as_int(),
          .height = json.at("height").as_int(),
          .frames = json.at("frames").as_int(),
          .seconds = json.at("seconds").as_number(),
          .thumb = json.at("thumb").as_string(),
          .problem = json.at("problem").as_string()};
}

}  // namespace

Looks::Looks(std::vector<std::string> command, fs::path folder)
    : command_(std::move(command)), folder_(std::move(folder)) {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  io::make_folder(folder_);
}

Looks::Key Looks::key_of(const fs::path& file) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(file, error);
  const auto time = fs::last_write_time(file, error);
  return {file.string(), bytes, error ? 0 : time.time_since_epoch().count()};
}

void Looks::look(std::span<const fs::path> files) {
  std::vector<std::string> command = command_;
  command.push_back(fs::absolute(folder_).string());
  for (const fs::path& file : files) {
    command.push_back(fs::absolute(file).string());
  }
  const fs::path out = folder_ / "looks.json";
  std::string how = "it took too long";
  {
    Child child({.command = command, .log = folder_ / "log.txt", .out = out});
    const auto until = std::chrono::steady_clock::now() + kTime;
    while (!child.ended() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    how = child.ended().value_or(how);
  }
  std::ifstream in(out);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  // A line for each file; one that ended the process has none.
  size_t at = 0;
  for (const fs::path& file : files) {
    const size_t end = text.find('\n', at);
    Look look{.problem = fmt::format("it cannot be read: {}", how)};
    if (end != std::string::npos) {
      look = read_look(io::Json::parse(text.substr(at, end - at), "kinema look"));
      at = end + 1;
    }
    seen_[key_of(file)] = std::move(look);
    if (end == std::string::npos) {
      return;  // the others are looked at anew
    }
  }
}

std::vector<Look> Looks::at(std::span<const fs::path> files) {
  const std::lock_guard lock(mutex_);
  if (seen_.size() > kMostSeen) {
    seen_.clear();
  }
  std::vector<Look> out;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!seen_.contains(key_of(files[i]))) {
      std::vector<fs::path> some;
      for (size_t k = i; k < files.size() && some.size() < kMostAtOnce; ++k) {
        if (!seen_.contains(key_of(files[k]))) {
          some.push_back(files[k]);
        }
      }
      look(some);
    }
    const auto found = seen_.find(key_of(files[i]));
    out.push_back(found == seen_.end() ? Look{.problem = "it changes while it is read"}
                                       : found->second);
  }
  return out;
}

}  // namespace kinema::serve
