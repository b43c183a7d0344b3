#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// Lists of clips beside them: `metadata.jsonl` and `metadata.csv`.
namespace kinema::data {

/// What is said of one clip.
struct MetadataRow {
  std::string where;  // `clips/metadata.jsonl:7`
  std::string file;
  std::string caption;
};

/// Rows of a metadata.jsonl (an object a line) or metadata.csv (RFC 4180, with a header). The clip
/// is `file_name`, `video`, `path` or another usual name of it; the caption is `caption_column` or,
/// where that is `text`, another usual name. Throws an Error with path and line, and with the names
/// that are there when one is missing.
std::vector<MetadataRow> read_metadata(const std::filesystem::path& path,
                                       const std::string& caption_column);

/// The names under which a caption may stand, the first that is there counting.
std::vector<std::string> caption_names(const std::string& caption_column);

}  // namespace kinema::data
