#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kinema::runtime {

/// The magic bytes of such a file.
inline constexpr std::string_view kExecutableMagic = "KNMEXE01";

/// A compiled program in a file: kinema's header (magic, key, size, checksum), then the plugin's
/// bytes.
struct ExecutableFile {
  std::string key;  // 32 hexadecimal digits
  std::string bytes;
};

/// Nothing if the file does not exist or is invalid. Never throws.
std::optional<ExecutableFile> read_executable(const std::string& path);
/// Writes to a temporary name and renames. Returns false on failure.
bool write_executable(const std::string& path, const std::string& key, std::string_view bytes);

/// The key of a program that is saved for a later run: a hash of its StableHLO text only, because
/// it may be compiled on a machine without the devices.
std::string program_key(std::string_view text);

/// The bytes that `write_executable` stored under the text's program_key. Throws an Error with a
/// command to create the file again if it is missing, corrupt, or contains another program; `name`
/// is the program's name.
std::string read_saved_program(const std::string& path, std::string_view text,
                               std::string_view name);

}  // namespace kinema::runtime
