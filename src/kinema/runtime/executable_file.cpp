#include "kinema/runtime/executable_file.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kinema/core/error.h"

namespace kinema::runtime {
namespace {

namespace fs = std::filesystem;

// Host byte order: a file is for machines of one kind.
struct Header {
  char magic[8];
  char key[32];
  uint64_t size;
  uint64_t checksum;
};

}  // namespace

std::optional<ExecutableFile> read_executable(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return std::nullopt;  // opening a pipe would block
  }
  const uintmax_t file_size = fs::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  Header header{};
  if (error || !file.read(reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::string_view(header.magic, sizeof(header.magic)) != kExecutableMagic ||
      header.size != file_size - sizeof(header)) {
    return std::nullopt;
  }
  ExecutableFile out{.key = std::string(header.key, sizeof(header.key)),
                     .bytes = std::string(header.size, '\0')};
  if (!file.read(out.bytes.data(), static_cast<std::streamsize>(out.bytes.size())) ||
      XXH3_64bits(out.bytes.data(), out.bytes.size()) != header.checksum) {
    return std::nullopt;
  }
  return out;
}

bool write_executable(const std::string& path, const std::string& key, std::string_view bytes) {
  Header header{};
  kExecutableMagic.copy(header.magic, sizeof(header.magic));
  check(key.size() == sizeof(header.key), "[cache] the key `{}` has not 32 digits", key);
  std::memcpy(header.key, key.data(), key.size());
  header.size = bytes.size();
  header.checksum = XXH3_64bits(bytes.data(), bytes.size());

  static std::atomic<int> serial = 0;
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path, getpid(), serial++);
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
  fs::rename(temporary, path, error);
  if (error) {
    fs::remove(temporary, error);
    return false;
  }
  return true;
}

std::string program_key(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string read_saved_program(const std::string& path, std::string_view text,
                               std::string_view name) {
  constexpr std::string_view kRemedy = "kinema plan CONFIG target=... save_executable=";
  std::optional<ExecutableFile> file = read_executable(path);
  check(file.has_value(),
        "[program] {} is not a compiled program, or a corrupt one\n  {}{} makes it", path, kRemedy,
        path);
  check(file->key == program_key(text),
        "[program] {} holds another program than the {} of this run: it was made for another "
        "configuration, mesh or version\n  {}{} creates it again",
        path, name, kRemedy, path);
  return std::move(file->bytes);
}

}  // namespace kinema::runtime
