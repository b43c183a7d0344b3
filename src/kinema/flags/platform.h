#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kinema::flags {

/// The compiler that reads a flag; ANY: all of them.
enum class Backend : uint8_t { ANY, CPU, GPU, TPU };

/// The platform that flags are checked for.
struct Platform {
  Backend backend = Backend::CPU;
  std::string chip;     ///< "v6e", "h100", "cpu"; empty: not known
  std::string version;  ///< of the plugin, "0.0.51"; empty: the newest in the table

  /// The plugin's name in the table: "libtpu", "cuda", "cpu".
  std::string_view plugin() const;
  /// The plugin version whose row of the table is used.
  std::string_view table_version() const;
  /// True when the table was measured with exactly this version.
  bool in_table() const;
  /// `libtpu 0.0.51 on v6e`, for messages.
  std::string text() const;
};

/// The chip of a `TPU_ACCELERATOR_TYPE` such as `v5litepod-8`; empty if unknown.
std::string chip_of_accelerator(std::string_view type);

/// The plugin's version from the folders of its unpacked package (`libtpu-0.0.51/...` or a sibling
/// `libtpu-0.0.51.dist-info`); empty if they do not contain it.
std::string plugin_version(const std::string& path);

/// Negative, zero or positive as `a` is older than, equal to or newer than `b` (`0.0.42.1`).
int compare_versions(std::string_view a, std::string_view b);

}  // namespace kinema::flags
