#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>

#include "core/error.h"
#include "data/video_source.h"
#include "io/json.h"
#include "io/mapped_file.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;

bool is_video(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".mp4" || extension == ".mov" || extension == ".mkv" || extension == ".webm";
}

CaptionedClip checked(const fs::path& folder, const std::string& file_name, std::string caption,
                      const std::string& where, MissingClip missing) {
  check(!file_name.empty(), "[videos] {}: the file name is empty", where);
  CaptionedClip clip{folder / file_name, std::move(caption), ""};
  std::error_code ignored;
  if (!fs::is_regular_file(clip.path, ignored)) {
    clip.problem = fmt::format("[videos] {}: there is no clip {}", where, clip.path.string());
    check(missing == MissingClip::Keep, "{}", clip.problem);
  }
  return clip;
}

std::string trimmed(std::string text) {
  const char* blank = " \t\r\n";
  text.erase(text.find_last_not_of(blank) + 1);
  return text.erase(0, text.find_first_not_of(blank));
}

std::vector<CaptionedClip> from_jsonl(const fs::path& folder, const fs::path& path,
                                      const std::string& caption_column, MissingClip missing) {
  const std::string text = io::read_text(path);
  std::vector<CaptionedClip> clips;
  size_t at = 0;
  for (int line = 1; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string row = trimmed(text.substr(at, end - at));
    at = end + 1;
    if (row.empty()) {
      continue;
    }
    const std::string where = path.string() + ":" + std::to_string(line);
    const io::Json value = io::Json::parse(row, where);
    clips.push_back(checked(folder, value.at("file_name").as_string(),
                            value.at(caption_column).as_string(), where, missing));
  }
  return clips;
}

struct CsvRow {
  int line = 0;
  std::vector<std::string> fields;
};

// RFC 4180: fields may stand in quotes, with a quote doubled inside, and then hold commas and line
// breaks.
std::vector<CsvRow> parse_csv(const std::string& text, const std::string& source) {
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
    check(!quoted, "[videos] {}:{}: a quoted field does not end", source, row.line);
    if (row.fields.size() > 1 || !trimmed(row.fields[0]).empty()) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<CaptionedClip> from_csv(const fs::path& folder, const fs::path& path,
                                    const std::string& caption_column, MissingClip missing) {
  std::string whole = io::read_text(path);
  if (whole.starts_with("\xef\xbb\xbf")) {
    whole.erase(0, 3);  // the mark that spreadsheets put before UTF-8
  }
  const std::vector<CsvRow> rows = parse_csv(whole, path.string());
  check(!rows.empty(), "[videos] {} is empty; `file_name,{}` was expected in its first line",
        path.string(), caption_column);
  const auto column = [&](const std::string& name) {
    const auto& header = rows[0].fields;
    const auto found = std::ranges::find(header, name);
    check(found != header.end(), "[videos] {}: the first line has no column `{}`", path.string(),
          name);
    return static_cast<size_t>(found - header.begin());
  };
  const size_t file_name = column("file_name");
  const size_t text = column(caption_column);
  std::vector<CaptionedClip> clips;
  for (size_t i = 1; i < rows.size(); ++i) {
    const std::string where = path.string() + ":" + std::to_string(rows[i].line);
    check(rows[i].fields.size() == rows[0].fields.size(),
          "[videos] {} has {} fields but the first line has {}", where, rows[i].fields.size(),
          rows[0].fields.size());
    clips.push_back(
        checked(folder, rows[i].fields[file_name], rows[i].fields[text], where, missing));
  }
  return clips;
}

std::vector<CaptionedClip> from_text_files(const fs::path& folder, MissingClip missing) {
  std::vector<CaptionedClip> clips;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!is_video(entry.path())) {
      continue;
    }
    fs::path text = entry.path();
    text.replace_extension(".txt");
    CaptionedClip clip{entry.path(), "", ""};
    if (fs::exists(text)) {
      clip.caption = trimmed(io::read_text(text, size_t{1} << 20));
    } else {
      clip.problem = fmt::format(
          "[videos] {} has no caption: {} is not there, and the folder has no metadata.jsonl or "
          "metadata.csv",
          entry.path().string(), text.filename().string());
      check(missing == MissingClip::Keep, "{}", clip.problem);
    }
    clips.push_back(std::move(clip));
  }
  std::ranges::sort(clips, {}, &CaptionedClip::path);
  return clips;
}

}  // namespace

std::vector<CaptionedClip> list_clips(const fs::path& folder, const std::string& caption_column,
                                      MissingClip missing) {
  check(fs::is_directory(folder), "[videos] {} is not a folder", folder.string());
  std::vector<CaptionedClip> clips;
  if (const fs::path path = folder / "metadata.jsonl"; fs::exists(path)) {
    clips = from_jsonl(folder, path, caption_column, missing);
  } else if (const fs::path csv = folder / "metadata.csv"; fs::exists(csv)) {
    clips = from_csv(folder, csv, caption_column, missing);
  } else {
    clips = from_text_files(folder, missing);
  }
  check(!clips.empty(),
        "[videos] {} holds no clips\n  put mp4 files there with a metadata.jsonl of file_name and "
        "text",
        folder.string());
  return clips;
}

}  // namespace kinema::data
