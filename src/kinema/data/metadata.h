#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// Lists of clips with captions: `metadata.jsonl` and `metadata.csv`.
namespace kinema::data {

/// The entry of one clip.
struct MetadataRow {
  std::string where;  // `clips/metadata.jsonl:7`
  std::string file;
  std::string caption;
};

/// Entries of a metadata.jsonl (one object per line) or metadata.csv (RFC 4180, with a header). The
/// clip's field is `file_name`, `video`, `path` or another usual name; the caption's is
/// `caption_column`, or, if that is `text`, another usual name. Throws an Error with path and line,
/// and with the existing names if one is missing.
std::vector<MetadataRow> read_metadata(const std::filesystem::path& path,
                                       const std::string& caption_column);

/// The names of the caption's field, by priority.
std::vector<std::string> caption_names(const std::string& caption_column);

}  // namespace kinema::data
