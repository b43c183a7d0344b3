#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace kinema::plan {

/// A wheel that holds a PJRT plugin, pinned.
struct PluginWheel {
  std::string hardware;  // "tpu", "cuda"
  std::string package;
  std::string version;
  std::string sha256;
  std::string platform;  // wheel tag
  std::string folder;    // what of the wheel is unpacked
};

std::span<const PluginWheel> plugin_wheels();

/// Fetches the wheel for `hardware` with pip and the index that this machine is set up for, checks
/// its sha256, and unpacks the plugin's folder into `cache`/PACKAGE-VERSION. Returns that folder;
/// does nothing when it is there. Throws an Error for unknown hardware, without python3 or pip, and
/// for a file with another checksum.
std::filesystem::path install_plugin(const std::string& hardware,
                                     const std::filesystem::path& cache);

}  // namespace kinema::plan
