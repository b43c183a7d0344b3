#include "runtime/executable_cache.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/error.h"
#include "runtime/cpu_features.h"

namespace kinema::runtime {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'K', 'N', 'M', 'E', 'X', 'E', '0', '1'};
constexpr std::string_view kSuffix = ".executable";

// Host byte order: an entry is for this machine's CPU only.
struct Header {
  char magic[8];
  char key[32];
  uint64_t size;
  uint64_t checksum;
};

// Length before each part, so that moving a byte from one part to the next changes the hash.
void add(XXH3_state_t& state, std::string_view part) {
  const uint64_t size = part.size();
  XXH3_128bits_update(&state, &size, sizeof(size));
  XXH3_128bits_update(&state, part.data(), part.size());
}

}  // namespace

ExecutableCache::ExecutableCache(std::string folder, int64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {
  std::error_code error;
  fs::create_directories(folder_, error);
  check(!error, "[cache] the folder `{}` cannot be made: {}", folder_, error.message());
}

std::string ExecutableCache::key(const pjrt::Client& client, std::string_view program,
                                 std::string_view compile_options) {
  const pjrt::Plugin& plugin = client.plugin();
  std::error_code error;
  const uintmax_t plugin_size = fs::file_size(plugin.path(), error);
  std::string build = fmt::format("{}.{} {} bytes", plugin.major_version(), plugin.minor_version(),
                                  error ? 0 : plugin_size);
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
  add(state, cpu_features());
  // The plugin's compiler takes flags from these too.
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
  std::error_code error;
  const uintmax_t file_size = fs::file_size(path(key), error);
  std::ifstream file(path(key), std::ios::binary);
  Header header{};
  if (error || !file.read(reinterpret_cast<char*>(&header), sizeof(header))) return std::nullopt;
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 ||
      std::string_view(header.key, sizeof(header.key)) != key ||
      header.size != file_size - sizeof(header)) {
    return std::nullopt;
  }
  std::string bytes(header.size, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) ||
      XXH3_64bits(bytes.data(), bytes.size()) != header.checksum) {
    return std::nullopt;
  }
  // The time of last use is what trim() goes by.
  fs::last_write_time(path(key), fs::file_time_type::clock::now(), error);
  return bytes;
}

bool ExecutableCache::put(const std::string& key, std::string_view bytes) const {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  check(key.size() == sizeof(header.key), "[cache] the key `{}` has not 32 digits", key);
  std::memcpy(header.key, key.data(), key.size());
  header.size = bytes.size();
  header.checksum = XXH3_64bits(bytes.data(), bytes.size());

  static std::atomic<int> serial = 0;
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path(key), getpid(), serial++);
  std::error_code error;
  {
    std::ofstream file(temporary, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&header), sizeof(header));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) {
      file.close();
      fs::remove(temporary, error);
      return false;
    }
  }
  fs::rename(temporary, path(key), error);
  if (error) {
    fs::remove(temporary, error);
    return false;
  }
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
  // What a process that ended in the middle of put() left behind; no write takes an hour.
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
