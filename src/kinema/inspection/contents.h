#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/inspection/clips.h"
#include "kinema/io/json.h"

namespace kinema::inspection {

/// The contents of a path: a summary line, one line per part, and the parts for `--json`.
struct Contents {
  std::string summary;
  std::vector<std::string> lines;
  io::Json parts = io::Json::array();
  io::Json left_out;      // of data sets of clips
  io::Json causes;        // of these: reasons of skipped clips and files -> number
  int64_t bad_clips = 0;  // that cannot be used
  std::string problem;    // why no command can use the path, although its contents are listed

  void add_tensor(const std::string& name, const Shape& shape);
  void add(std::string line);
};

/// For a file or folder of any kind that kinema reads. Throws an Error for other or corrupt ones.
Contents contents(const std::filesystem::path& path, const ClipProgress& progress = {});

}  // namespace kinema::inspection
