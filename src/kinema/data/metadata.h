#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

/// Lists of clips with captions: `metadata.jsonl`, `.csv`, `.tsv` and `.parquet`, and kohya's
/// `meta_cap.json`.
namespace kinema::data {

/// The entry of one clip.
struct MetadataRow {
  std::string where;  // `clips/metadata.jsonl:7`
  std::string file;
  std::string caption;
  // Of .jsonl, .csv and .tsv; empty: none.
  std::string mask = {};  // the field `mask`, a picture
  /// `control`, `source` or another usual name: a picture or clip from which the network makes this
  /// one; `control_mask`: where it is made; `reference`: pictures of subjects.
  std::string control = {};
  std::string control_mask = {};
  std::vector<std::string> references = {};
};

struct Metadata {
  std::vector<MetadataRow> rows;
  std::string note;  // a line for the user about an unusual format; mostly empty
};

/// The names of metadata files, by increasing priority.
inline constexpr std::array<const char*, 7> kMetadataFiles = {
    "meta_cap.json", "meta_clean.json", "meta_lat.json", "metadata.parquet",
    "metadata.tsv",  "metadata.csv",    "metadata.jsonl"};

/// Entries of a .jsonl (one object per line), .csv or .tsv (RFC 4180, with a header, whose names
/// tell the separator: a comma, a semicolon, a tab or a bar), .parquet or .json file (an object by
/// file, with `caption` and `tags`). The clip's field is `file_name`, `video`, `path` or another
/// usual name; the caption's is `caption_column`, or, if that is `text`, another usual name. Throws
/// an Error with path and line, and with the existing names if one is missing.
Metadata read_metadata(const std::filesystem::path& path, const std::string& caption_column);

/// The names of the caption's field, by priority.
std::vector<std::string> caption_names(const std::string& caption_column);

}  // namespace kinema::data
