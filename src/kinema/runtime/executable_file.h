#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kinema::runtime {

/// How such a file begins.
inline constexpr std::string_view kExecutableMagic = "KNMEXE01";

/// A compiled program in a file: our header (magic, key, size, checksum), then the plugin's bytes.
struct ExecutableFile {
  std::string key;  // 32 hexadecimal digits
  std::string bytes;
};

/// Nothing when there is no such file, or not a valid one. Never throws.
std::optional<ExecutableFile> read_executable(const std::string& path);
/// Writes beside the name and renames. False when the disk does not take it.
bool write_executable(const std::string& path, const std::string& key, std::string_view bytes);

/// The key of a program that is kept for a later run: of its StableHLO text alone, since it may be
/// compiled on a machine without the devices.
std::string program_key(std::string_view text);

/// The bytes that `write_executable` kept under the text's program_key. Throws an Error that says
/// how to make the file anew when it is missing, damaged, or holds another program; `name` names
/// the program.
std::string read_saved_program(const std::string& path, std::string_view text,
                               std::string_view name);

}  // namespace kinema::runtime
