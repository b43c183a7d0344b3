#include "kinema/data/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "kinema/core/error.h"
#include "kinema/core/trimmed.h"
#include "kinema/data/hf_table.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"
#include "kinema/text/unicode.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;

// The first is the datasets library's name, the others those of other trainers.
constexpr std::array kFileNames = {"file_name", "video", "path",       "file",      "video_path",
                                   "filename",  "image", "image_path", "image_file"};

/// The field of a clip's mask.
constexpr std::string_view kMask = "mask";

// Names of kinema, diffusers' scripts, DiffSynth and VideoX-Fun.
const std::vector<std::string> kControlNames = {
    "control",       "source",     "conditioning_image", "control_image",
    "control_video", "vace_video", "control_file_path",  "control_path"};
const std::vector<std::string> kControlMaskNames = {"control_mask", "vace_video_mask"};
const std::vector<std::string> kReferenceNames = {
    "reference",        "references",           "reference_image",
    "reference_images", "vace_reference_image", "object_file_path"};

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

/// The field that a row has under one of the names, if it is not null; null without one. Throws an
/// Error for two of them.
const io::Json* find_field(const io::Json& row, const std::vector<std::string>& wanted,
                           const std::string& where) {
  const io::Json* out = nullptr;
  std::string_view first;
  for (const std::string& name : wanted) {
    const io::Json* found = row.find(name);
    if (found == nullptr || found->is_null()) {
      continue;
    }
    check(out == nullptr, "[data] {} has `{}` and `{}`, which are names of the same field", where,
          first, name);
    out = found;
    first = name;
  }
  return out;
}

/// A name, or a list of names.
std::vector<std::string> names_in(const io::Json& value) {
  if (!value.is_array()) {
    return {value.as_string()};
  }
  std::vector<std::string> out;
  for (const io::Json& each : value.items()) {
    out.push_back(each.as_string());
  }
  return out;
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
    const auto text_of = [&](const std::vector<std::string>& wanted) {
      const io::Json* found = find_field(value, wanted, where);
      return found == nullptr ? std::string() : found->as_string();
    };
    out.push_back({where, value.members()[file].second.as_string(),
                   value.members()[caption].second.as_string(), text_of({std::string(kMask)}),
                   text_of(kControlNames), text_of(kControlMaskNames)});
    if (const io::Json* references = find_field(value, kReferenceNames, where)) {
      out.back().references = names_in(*references);
    }
  }
  return out;
}

/// kohya's lists: an object of `{"0.png": {"caption": "a fox", "tags": "fox, snow"}}`. Tags follow
/// the caption, and are the caption where there is none.
std::vector<MetadataRow> from_object(const std::string& text, const std::string& path,
                                     const std::string& caption_column) {
  const io::Json object = io::Json::parse(text, path);
  check(object.is_object(), "[data] {} is {}, expected an object of files and their captions", path,
        object.describe());
  std::vector<MetadataRow> out;
  for (const auto& [file, entry] : object.members()) {
    const std::string where = fmt::format("{} `{}`", path, file.substr(0, 100));
    check(entry.is_object(), "[data] {} is {}, expected {{\"caption\": ..., \"tags\": ...}}", where,
          entry.describe());
    std::string words;
    for (const std::string& name : caption_names(caption_column)) {
      if (const io::Json* found = entry.find(name); found != nullptr && words.empty()) {
        words = found->as_string();
      }
    }
    if (const io::Json* tags = entry.find("tags")) {
      words += (words.empty() ? "" : ", ") + tags->as_string();
    }
    check(!words.empty(), "[data] {} has neither {} nor `tags`", where,
          quoted(caption_names(caption_column), 3));
    out.push_back({where, file, std::move(words), ""});
  }
  return out;
}

struct CsvRow {
  int line = 0;
  std::vector<std::string> fields;
};

/// A text of rows. RFC 4180: fields may be quoted, with quotes doubled inside, and then contain
/// separators and line breaks.
struct Csv {
  std::string_view text;
  std::string source;
  char separator = ',';
  int first_line = 1;
};

/// The rows, at most `most`.
std::vector<CsvRow> parse_csv(const Csv& csv, size_t most = SIZE_MAX) {
  std::vector<CsvRow> rows;
  const std::string_view text = csv.text;
  int line = csv.first_line;
  size_t at = 0;
  while (at < text.size() && rows.size() < most) {
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
      } else if (c == csv.separator) {
        row.fields.emplace_back();
      } else if (c == '\n') {
        ++at;
        break;
      } else if (c != '\r') {
        row.fields.back() += c;
      }
    }
    check(!quoted, "[data] {}:{}: a quoted field does not end", csv.source, row.line);
    if (row.fields.size() > 1 || !trimmed(row.fields[0]).empty()) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

bool has_name(const std::vector<std::string>& there, const std::vector<std::string>& wanted) {
  return std::ranges::any_of(
      wanted, [&](const std::string& name) { return std::ranges::count(there, name) > 0; });
}

/// The separator for which the first line has the names of a file and a caption; else the one that
/// makes most fields of it.
char separator_of(Csv csv, const std::string& caption_column) {
  constexpr std::array kSeparators = {',', ';', '\t', '|'};
  char best = ',';
  size_t most = 0;
  for (const char each : kSeparators) {
    csv.separator = each;
    std::vector<std::string> names;
    try {
      for (const CsvRow& first : parse_csv(csv, 1)) {
        names = first.fields;
      }
    } catch (const Error&) {
      continue;  // a quote without an end, for this separator
    }
    if (has_name(names, file_names()) && has_name(names, caption_names(caption_column))) {
      return each;
    }
    if (names.size() > most) {
      most = names.size();
      best = each;
    }
  }
  return best;
}

/// Takes the line `sep=;` of spreadsheets from the beginning.
bool take_separator_line(Csv& csv) {
  constexpr std::string_view kBegin = "sep=";
  const size_t end = csv.text.find('\n');
  if (!csv.text.starts_with(kBegin) || end == std::string_view::npos ||
      trimmed(csv.text.substr(0, end)).size() > kBegin.size() + 1) {
    return false;
  }
  csv.separator = csv.text[kBegin.size()];
  csv.text.remove_prefix(end + 1);
  csv.first_line = 2;
  return true;
}

std::string_view separator_word(char separator) {
  return separator == ','    ? "comma"
         : separator == ';'  ? "semicolon"
         : separator == '\t' ? "tab"
                             : "bar";
}

Metadata from_csv(std::string_view text, const std::string& path,
                  const std::string& caption_column) {
  Csv csv{.text = text, .source = path};
  if (!take_separator_line(csv)) {
    csv.separator = separator_of(csv, caption_column);
  }
  const std::vector<CsvRow> rows = parse_csv(csv);
  check(!rows.empty(), "[data] {} is empty; `file_name,{}` was expected in its first line", path,
        caption_column);
  const std::vector<std::string>& header = rows[0].fields;
  const std::string first = path + ": the first line";
  const size_t file = find_name(header, file_names(), first, "column ");
  const size_t caption = find_name(header, caption_names(caption_column), first, "column ");
  const auto column_of = [&](const std::vector<std::string>& wanted) {
    const auto found = std::ranges::find_if(
        wanted, [&](const std::string& name) { return has_name(header, {name}); });
    return found == wanted.end()
               ? header.size()
               : static_cast<size_t>(std::ranges::find(header, *found) - header.begin());
  };
  const size_t mask = column_of({std::string(kMask)});
  const size_t control = column_of(kControlNames);
  const size_t control_mask = column_of(kControlMaskNames);
  const size_t reference = column_of(kReferenceNames);
  Metadata out;
  const bool is_usual = csv.separator == (path.ends_with(".tsv") ? '\t' : ',');
  out.note = is_usual ? "" : fmt::format("its separator is a {}", separator_word(csv.separator));
  for (size_t i = 1; i < rows.size(); ++i) {
    std::string where = path + ":" + std::to_string(rows[i].line);
    check(rows[i].fields.size() == header.size(),
          "[data] {} has {} fields but the first line has {}", where, rows[i].fields.size(),
          header.size());
    const auto text_of = [&](size_t column) {
      return column < header.size() ? rows[i].fields[column] : std::string();
    };
    out.rows.push_back({std::move(where), rows[i].fields[file], rows[i].fields[caption],
                        text_of(mask), text_of(control), text_of(control_mask)});
    if (const std::string name = text_of(reference); !name.empty()) {
      out.rows.back().references = {name};
    }
  }
  return out;
}

std::vector<MetadataRow> from_parquet(const fs::path& path, const std::string& caption_column) {
  const std::vector<std::string> columns = HfTable::columns_of(path);
  const size_t file = find_name(columns, file_names(), path.string(), "column ");
  const size_t caption =
      find_name(columns, caption_names(caption_column), path.string(), "column ");
  const HfTable table(path, columns[file], columns[caption]);
  std::vector<MetadataRow> out;
  for (int64_t row = 0; row < table.rows(); ++row) {
    const MediaCell cell = table.media(row);
    check(cell.bytes.empty(),
          "[data] {}: `{}` holds the pictures themselves, expected names of files\n  "
          "dataset_type=hf reads them",
          path.string(), columns[file]);
    out.push_back(
        {fmt::format("{} row {}", path.string(), row), cell.path, table.caption(row), ""});
  }
  return out;
}

}  // namespace

std::vector<std::string> caption_names(const std::string& caption_column) {
  return caption_column == "text"
             ? std::vector<std::string>{"text", "caption", "prompt", "description"}
             : std::vector<std::string>{caption_column};
}

Metadata read_metadata(const fs::path& path, const std::string& caption_column) {
  const std::string extension = path.extension().string();
  if (extension == ".parquet") {
    return {.rows = from_parquet(path, caption_column), .note = ""};
  }
  std::string text = io::read_text(path);
  check(!text::is_utf16(text), "[data] {0} is UTF-16, expected UTF-8\n  {1}", path.string(),
        text::kUtf16Remedy);
  if (text.starts_with("\xef\xbb\xbf")) {
    text.erase(0, 3);  // the byte order mark of spreadsheets
  }
  if (extension == ".json") {
    return {.rows = from_object(text, path.string(), caption_column), .note = ""};
  }
  return extension == ".jsonl"
             ? Metadata{.rows = from_jsonl(text, path.string(), caption_column), .note = ""}
             : from_csv(text, path.string(), caption_column);
}

}  // namespace kinema::data
