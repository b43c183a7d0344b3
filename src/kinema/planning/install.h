#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kinema::planning {

/// A wheel of a plugin, or of libraries that the plugin loads; pinned.
struct Wheel {
  std::string package;
  std::string version;
  std::string sha256;
  std::string platform;            // wheel tag
  int64_t megabytes = 0;           // of the wheel
  int64_t unpacked_megabytes = 0;  // of what is unpacked
};

/// What `kinema doctor --install HARDWARE` fetches: the plugin first.
struct Installation {
  std::string hardware;  // "tpu", "cuda"
  std::string what;      // for people: "the compiler for TPUs"
  std::vector<Wheel> wheels;

  /// The folder in the cache that all of them are unpacked into: PACKAGE-VERSION of the plugin.
  std::string folder() const;
};

std::span<const Installation> installations();

/// The one for `tpu` or `cuda`; throws an Error for anything else.
const Installation& installation_for(const std::string& hardware);

/// Told what is done next: "fetching nvidia-cublas 13.4.1.3 (386 MB)".
using InstallObserver = std::function<void(const std::string&)>;

/// Fetches the wheels that are not there yet with pip and the index that this
/// machine is set up for, checks their sha256, and unpacks them side by side as Python's installers
/// would, which is where the plugin looks for its libraries. Each is complete once its .dist-info
/// is there, so that what was broken off goes on with the next. Returns the folder.
///
/// Throws an Error without python3 or pip, without the space on the disk, and for a file with
/// another checksum.
std::filesystem::path install(const Installation& installation, const std::filesystem::path& cache,
                              const InstallObserver& observer = {});

/// The wheels of an installation that are not in the cache.
std::vector<Wheel> missing_wheels(const Installation& installation,
                                  const std::filesystem::path& cache);

}  // namespace kinema::planning
