#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kinema::flags {

/// Whose compiler reads a flag; ANY is every one of them.
enum class Backend : uint8_t { ANY, CPU, GPU, TPU };

/// What flags are checked for.
struct Platform {
  Backend backend = Backend::CPU;
  std::string chip;     ///< "v6e", "h100", "cpu"; empty: not known
  std::string version;  ///< of the plugin, "0.0.51"; empty: the newest that the table has

  /// The plugin as the table names it: "libtpu", "cuda", "cpu".
  std::string_view plugin() const;
  /// The plugin version whose row of the table is used.
  std::string_view table_version() const;
  /// True when the table was measured with this very version.
  bool in_table() const;
  /// `libtpu 0.0.51 on v6e`, for messages.
  std::string text() const;
};

/// The chip of a `TPU_ACCELERATOR_TYPE` such as `v5litepod-8`; empty when it is none that is known.
std::string chip_of_accelerator(std::string_view type);

/// The plugin's version by the folders that its wheel is unpacked in (`libtpu-0.0.51/...` or a
/// `libtpu-0.0.51.dist-info` beside it); empty when they do not say.
std::string plugin_version(const std::string& path);

/// Below zero, zero or above zero as `a` is older than, equal to or newer than `b` (`0.0.42.1`).
int compare_versions(std::string_view a, std::string_view b);

}  // namespace kinema::flags
