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

/// A table with one line per clip, skipped files, and totals.
struct ClipTable {
  std::string summary;
  std::vector<std::string> lines;
  std::vector<std::string> bad;  // one line per clip that cannot be used
  io::Json report = io::Json::object();
};

/// Called while clips are measured.
using ClipProgress = std::function<void(int64_t done, int64_t total)>;

/// The clips of a path; nothing if it is not a data set of clips. All are read by the same reader
/// as in `train` and `prepare`. With `verify` each is decoded completely. Throws an Error for a set
/// that cannot be opened.
std::optional<ClipTable> clip_table(const std::filesystem::path& path, bool verify,
                                    const ClipProgress& progress = {});

}  // namespace kinema::inspection
