#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kinema/io/json.h"

/// Data sets of clips: folders, tars, Parquet and Arrow files.
namespace kinema::inspection {

/// A line a clip, what was left out, and totals.
struct ClipTable {
  std::string summary;
  std::vector<std::string> lines;
  std::vector<std::string> bad;  // a line for each clip that cannot be used
  io::Json report = io::Json::object();
};

/// Called while clips are looked at.
using ClipProgress = std::function<void(int64_t done, int64_t total)>;

/// Of the clips of a path; nothing where it is no data set of clips. All are read by the reader
/// that `train` and `prepare` have. With `verify` each is decoded to its end. Throws an Error for a
/// set that cannot be opened.
std::optional<ClipTable> clip_table(const std::filesystem::path& path, bool verify,
                                    const ClipProgress& progress = {});

}  // namespace kinema::inspection
