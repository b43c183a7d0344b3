#include "kinema/runtime/content_hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "kinema/runtime/executable_file.h"

namespace kinema::runtime {
namespace {

namespace fs = std::filesystem;

std::string digits(const XXH128_hash_t& hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string hash_of(std::string_view text) {
  return digits(XXH3_128bits(text.data(), text.size()));
}

/// A text that changes with each write to a file and with each replacement of the file; nothing if
/// it does not exist.
std::optional<std::string> stamp_of(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) {
    return std::nullopt;
  }
  return hash_of(fmt::format("{} {} {} {}.{:09} {}.{:09}", about.st_dev, about.st_ino,
                             about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec,
                             about.st_ctim.tv_sec, about.st_ctim.tv_nsec));
}

std::optional<std::string> read_and_hash(const std::string& path) {
  constexpr size_t kChunk = size_t{4} << 20;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(kChunk);
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_128bits_reset(state.get());
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    XXH3_128bits_update(state.get(), piece.data(), static_cast<size_t>(file.gcount()));
  }
  return file.eof() ? std::optional(digits(XXH3_128bits_digest(state.get()))) : std::nullopt;
}

}  // namespace

std::string content_hash(const std::string& path, const std::string& memory) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;  // by stamp
  const std::optional<std::string> stamp = stamp_of(path);
  if (!stamp) {
    return hash_of(path);
  }
  const std::scoped_lock lock(mutex);
  if (const auto found = known.find(*stamp); found != known.end()) {
    return found->second;
  }
  const std::string file = memory + "/" + *stamp + ".hash";
  std::optional<ExecutableFile> kept = read_executable(file);
  if (!kept || kept->key != *stamp || kept->bytes.size() != hash_of("").size()) {
    const std::optional<std::string> hash = read_and_hash(path);
    if (!hash) {
      return hash_of(path);
    }
    // The file may have changed during reading.
    if (stamp_of(path) != stamp) {
      return *hash;
    }
    std::error_code ignored;
    fs::create_directories(memory, ignored);
    write_executable(file, *stamp, *hash);
    kept = ExecutableFile{.key = *stamp, .bytes = *hash};
  }
  return known.emplace(*stamp, kept->bytes).first->second;
}

}  // namespace kinema::runtime
