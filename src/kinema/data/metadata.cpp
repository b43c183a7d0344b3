#include "kinema/data/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kinema/core/error.h"
#include "kinema/core/trimmed.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;

// The first is the datasets library's name, the others those of other trainers.
constexpr std::array kFileNames = {"file_name",  "video",    "path", "file",
                                   "video_path", "filename", "image"};

std::vector<std::string> file_names() { return {kFileNames.begin(), kFileNames.end()}; }

std::string quoted(const std::vector<std::string>& names, size_t most) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < most; ++i) {
    out += fmt::format("{}`{}`", i == 0 ? "" : ", ", names[i].substr(0, 60));
  }
  return out + (names.size() > most ? ", ..." : "");
}

/// The first of `wanted` that exists; throws an Error that lists the existing names.
size_t find_name(const std::vector<std::string>& there, const std::vector<std::string>& wanted,
                 const std::string& where, const char* what) {
  for (const std::string& name : wanted) {
    if (const auto found = std::ranges::find(there, name); found != there.end()) {
      return static_cast<size_t>(found - there.begin());
    }
  }
  fail("[data] {} has no {}{}: it has {}\n  {}", where, what, quoted(wanted, 3), quoted(there, 12),
       wanted.front() == kFileNames.front()
           ? "call the clip's file `file_name`"
           : "caption_column=NAME names the field with the caption");
}

std::vector<MetadataRow> from_jsonl(const std::string& text, const std::string& path,
                                    const std::string& caption_column) {
  std::vector<MetadataRow> out;
  size_t at = 0;
  for (int line = 1; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view row = trimmed(std::string_view(text).substr(at, end - at));
    at = end + 1;
    if (row.empty()) {
      continue;
    }
    const std::string where = path + ":" + std::to_string(line);
    const io::Json value = io::Json::parse(row, where);
    std::vector<std::string> names;
    for (const auto& [name, each] : value.members()) {
      names.push_back(name);
    }
    const size_t file = find_name(names, file_names(), where, "");
    const size_t caption = find_name(names, caption_names(caption_column), where, "");
    out.push_back({where, value.members()[file].second.as_string(),
                   value.members()[caption].second.as_string()});
  }
  return out;
}

struct CsvRow {
  int line = 0;
  std::vector<std::string> fields;
};

// RFC 4180: fields may be quoted, with quotes doubled inside, and then contain commas and line
// breaks.
std::vector<CsvRow> parse_csv(std::string_view text, const std::string& source) {
  std::vector<CsvRow> rows;
  int line = 1;
  size_t at = 0;
  while (at < text.size()) {
    CsvRow row{line, {""}};
    bool quoted = false;
    for (; at < text.size(); ++at) {
      const char c = text[at];
      line += c == '\n' ? 1 : 0;
      if (quoted) {
        if (c == '"' && at + 1 < text.size() && text[at + 1] == '"') {
          row.fields.back() += text[++at];
        } else if (c == '"') {
          quoted = false;
        } else {
          row.fields.back() += c;
        }
      } else if (c == '"' && row.fields.back().empty()) {
        quoted = true;
      } else if (c == ',') {
        row.fields.emplace_back();
      } else if (c == '\n') {
        ++at;
        break;
      } else if (c != '\r') {
        row.fields.back() += c;
      }
    }
    check(!quoted, "[data] {}:{}: a quoted field does not end", source, row.line);
    if (row.fields.size() > 1 || !trimmed(row.fields[0]).empty()) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<MetadataRow> from_csv(std::string_view text, const std::string& path,
                                  const std::string& caption_column) {
  const std::vector<CsvRow> rows = parse_csv(text, path);
  check(!rows.empty(), "[data] {} is empty; `file_name,{}` was expected in its first line", path,
        caption_column);
  const std::vector<std::string>& header = rows[0].fields;
  const std::string first = path + ": the first line";
  const size_t file = find_name(header, file_names(), first, "column ");
  const size_t caption = find_name(header, caption_names(caption_column), first, "column ");
  std::vector<MetadataRow> out;
  for (size_t i = 1; i < rows.size(); ++i) {
    std::string where = path + ":" + std::to_string(rows[i].line);
    check(rows[i].fields.size() == header.size(),
          "[data] {} has {} fields but the first line has {}", where, rows[i].fields.size(),
          header.size());
    out.push_back({std::move(where), rows[i].fields[file], rows[i].fields[caption]});
  }
  return out;
}

}  // namespace

std::vector<std::string> caption_names(const std::string& caption_column) {
  return caption_column == "text"
             ? std::vector<std::string>{"text", "caption", "prompt", "description"}
             : std::vector<std::string>{caption_column};
}

std::vector<MetadataRow> read_metadata(const fs::path& path, const std::string& caption_column) {
  std::string text = io::read_text(path);
  if (text.starts_with("\xef\xbb\xbf")) {
    text.erase(0, 3);  // the byte order mark of spreadsheets
  }
  return path.extension() == ".csv" ? from_csv(text, path.string(), caption_column)
                                    : from_jsonl(text, path.string(), caption_column);
}

}  // namespace kinema::data
