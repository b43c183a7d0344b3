#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kinema::planning {

/// A pinned wheel of a plugin, or of libraries that the plugin loads.
struct Wheel {
  std::string package;
  std::string version;
  std::string sha256;
  std::string platform;            // wheel tag
  int64_t megabytes = 0;           // of the wheel
  int64_t unpacked_megabytes = 0;  // after unpacking
};

/// The wheels of `kinema doctor --install HARDWARE`: the plugin first.
struct Installation {
  std::string hardware;  // "tpu", "cuda"
  std::string what;      // for messages: "the compiler for TPUs"
  std::vector<Wheel> wheels;

  /// The folder in the cache for all of them: PACKAGE-VERSION of the plugin.
  std::string folder() const;
};

std::span<const Installation> installations();

/// The one for `tpu` or `cuda`; throws an Error for other names.
const Installation& installation_for(const std::string& hardware);

/// Called before each action: "fetching nvidia-cublas 13.4.1.3 (386 MB)".
using InstallObserver = std::function<void(const std::string&)>;

/// Downloads missing wheels with pip and its configured index, checks their sha256, and unpacks
/// them into one tree, as Python's installers do, because the plugin searches its libraries there.
/// A wheel is complete when its .dist-info exists, so that an interrupted installation continues
/// with the next wheel. Returns the folder.
///
/// Throws an Error without python3 or pip, without enough disk space, and for a wrong checksum.
std::filesystem::path install(const Installation& installation, const std::filesystem::path& cache,
                              const InstallObserver& observer = {});

/// The wheels of an installation that are not in the cache.
std::vector<Wheel> missing_wheels(const Installation& installation,
                                  const std::filesystem::path& cache);

}  // namespace kinema::planning
