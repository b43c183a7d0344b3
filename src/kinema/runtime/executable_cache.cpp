#include "kinema/runtime/executable_cache.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "kinema/runtime/client.h"
#include "kinema/runtime/content_hash.h"
#include "kinema/runtime/cpu_features.h"
#include "kinema/runtime/executable_file.h"

namespace kinema::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".executable";

// The length precedes each part, so that moving a byte from one part to the next changes the hash.
void add(XXH3_state_t& state, std::string_view part) {
  const uint64_t size = part.size();
  XXH3_128bits_update(&state, &size, sizeof(size));
  XXH3_128bits_update(&state, part.data(), part.size());
}

}  // namespace

ExecutableCache::ExecutableCache(std::string folder, int64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
}

std::string ExecutableCache::key(const pjrt::Client& client, std::string_view program,
                                 std::string_view compile_options) {
  const pjrt::Plugin& plugin = client.plugin();
  std::string build = fmt::format("{}.{} {}", plugin.major_version(), plugin.minor_version(),
                                  content_hash(plugin.path(), cache_folder() + "/plugins"));
  for (const auto& [name, value] : plugin.attributes()) {
    build += fmt::format("|{}={}", name, pjrt::to_string(value));
  }
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  add(state, program);
  add(state, compile_options);
  add(state, build);
  add(state, client.platform_name());
  add(state, client.platform_version());
  add(state, client.addressable_devices().front().description().kind);
  add(state, std::to_string(client.devices().size()));
  if (client.devices().size() != client.addressable_devices().size()) {
    for (const pjrt::Device& own : client.addressable_devices()) {
      add(state, std::to_string(own.id()));
    }
  }
  add(state, cpu_features());
  // The plugin's compiler also reads flags from these.
  for (const char* const name : {"XLA_FLAGS", "LIBTPU_INIT_ARGS"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      add(state, name);
      add(state, value);
    }
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string ExecutableCache::path(const std::string& key) const {
  return folder_ + "/" + key + std::string(kSuffix);
}

std::optional<std::string> ExecutableCache::find(const std::string& key) const {
  std::optional<ExecutableFile> entry = read_executable(path(key));
  if (!entry || entry->key != key) return std::nullopt;
  // trim() uses the time of last use.
  std::error_code error;
  fs::last_write_time(path(key), fs::file_time_type::clock::now(), error);
  return std::move(entry->bytes);
}

bool ExecutableCache::put(const std::string& key, std::string_view bytes) const {
  if (!write_executable(path(key), key, bytes)) return false;
  trim();
  return true;
}

void ExecutableCache::drop(const std::string& key) const {
  std::error_code error;
  fs::remove(path(key), error);
}

void ExecutableCache::trim() const {
  struct Entry {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  // Left behind by a process that was killed during put(); no write takes an hour.
  const auto abandoned = fs::file_time_type::clock::now() - std::chrono::hours(1);
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(folder_, error)) {
    std::error_code gone;  // another process may trim at the same time
    const fs::file_time_type used = file.last_write_time(gone);
    if (file.path().extension() == ".tmp" && used < abandoned) fs::remove(file.path(), gone);
    if (file.path().extension() != kSuffix) continue;
    const auto bytes = static_cast<int64_t>(file.file_size(gone));
    if (gone) continue;
    entries.push_back({used, bytes, file.path()});
    total += bytes;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= max_bytes_) break;
    fs::remove(entry.path, error);
    total -= entry.bytes;
  }
}

}  // namespace kinema::runtime
