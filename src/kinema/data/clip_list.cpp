#include "kinema/data/clip_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "kinema/core/error.h"
#include "kinema/core/printable.h"
#include "kinema/core/trimmed.h"
#include "kinema/data/dataset_type.h"
#include "kinema/data/metadata.h"
#include "kinema/io/file_format.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/media_name.h"
#include "kinema/text/unicode.h"

namespace kinema::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoCaption = "no caption";
constexpr const char* kUnreadable = "caption cannot be read";
constexpr const char* kNotUtf8 = "caption is not UTF-8";

/// Files that are expected next to clips.
bool is_companion(const fs::path& path) {
  constexpr std::array<std::string_view, 16> kEndings = {
      ".txt", ".json", ".jsonl", ".csv",  ".tsv",  ".md",      ".yml",   ".yaml",
      ".py",  ".sh",   ".log",   ".toml", ".html", ".parquet", ".arrow", ".caption"};
  const std::string name = path.filename().string();
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return name == "LICENSE" || name == "README" ||
         std::ranges::find(kEndings, ending) != kEndings.end();
}

/// The split at the start of a folder's name, as in the datasets library; empty: none.
std::string split_of(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kWords = {{
      {"train", "train"},
      {"training", "train"},
      {"validation", "validation"},
      {"valid", "validation"},
      {"val", "validation"},
      {"dev", "validation"},
      {"test", "test"},
      {"testing", "test"},
      {"eval", "test"},
      {"evaluation", "test"},
  }};
  const std::string word = name.substr(0, name.find_first_of("-._ 0123456789"));
  const auto* found = std::ranges::find(kWords, word, [](const auto& pair) { return pair.first; });
  return found == kWords.end() ? "" : std::string(found->second);
}

/// The caption file of a clip: `.txt`, else kohya's `.caption`, in lower or upper case. The first
/// of these if none exists.
fs::path caption_file(const fs::path& clip) {
  for (const char* extension : {".txt", ".TXT", ".Txt", ".caption", ".CAPTION", ".Caption"}) {
    std::error_code ignored;
    if (fs::path text = fs::path(clip).replace_extension(extension); fs::exists(text, ignored)) {
      return text;
    }
  }
  return fs::path(clip).replace_extension(".txt");
}

/// `10_fox`: kohya's scripts repeat the pictures of such a folder 10 times per epoch.
bool has_repeats(const std::string& folder) {
  const size_t digits = folder.find_first_not_of("0123456789");
  return digits != 0 && digits != std::string::npos && folder[digits] == '_';
}

/// Reads a folder and its subfolders.
class Walk {
 public:
  Walk(const fs::path& root, const ListOptions& options) : root_(root), options_(options) {
    choose_splits();
    visit(root, std::nullopt);
    leave_out_unlisted();
    leave_out_others();
    note_repeats();
  }

  Listing take() { return std::move(out_); }

 private:
  using ListPath = std::optional<fs::path>;  // of metadata

  /// Selects the split if the subfolders are named for several splits, including the requested one.
  void choose_splits() {
    std::set<std::string> splits;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(root_, error)) {
      if (entry.is_directory(error)) {
        splits.insert(split_of(entry.path().filename().string()));
      }
    }
    splits.erase("");
    by_split_ = splits.size() > 1 && splits.contains(split_of(options_.split));
  }

  /// `above`: the nearest metadata in a parent folder.
  void visit(const fs::path& folder, ListPath above) {
    std::error_code error;
    if (!seen_.insert(fs::canonical(folder, error)).second) {
      return;  // a symbolic link to a parent
    }
    std::vector<fs::path> paths;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (!at->path().filename().string().starts_with('.')) {
        paths.push_back(at->path());
      }
    }
    if (error) {
      check(folder != root_, "[data] {} cannot be read: {}", folder.string(), error.message());
      out_.left_out.push_back({name(folder), "cannot be read: " + error.message()});
      return;
    }
    std::ranges::sort(paths);
    for (const char* each : kMetadataFiles) {
      if (fs::is_regular_file(folder / each, error)) {
        above = folder / each;
      }
    }
    if (above && above->parent_path() == folder) {
      read_list(*above);
    }
    std::vector<fs::path> folders;
    for (const fs::path& path : paths) {
      if (fs::is_directory(path, error)) {
        folders.push_back(path);
      } else {
        look_at(path, above);
      }
    }
    for (const fs::path& each : folders) {
      const std::string split = folder == root_ ? split_of(each.filename().string()) : "";
      if (by_split_ && !split.empty() && split != split_of(options_.split)) {
        out_.left_out.push_back({name(each) + "/", "of the split `" + split + "`"});
        seen_.insert(fs::canonical(each, error));
      } else {
        visit(each, above);
      }
    }
  }

  void read_list(const fs::path& path) {
    Metadata metadata = read_metadata(path, options_.caption_column);
    if (!metadata.note.empty()) {
      out_.notes.push_back(fmt::format("{}: {}", name(path), metadata.note));
    }
    for (MetadataRow& row : metadata.rows) {
      CaptionedClip clip{path.parent_path() / row.file, std::move(row.caption), "", ""};
      keep(clip, [&] {
        clip.cause = kNotUtf8;
        check_caption(clip.caption, row.where);
        clip.cause = "outside of the folder";
        check(!row.file.empty(), "[data] {}: the file name is empty", row.where);
        clip.path = inside(root_, path.parent_path(), row.file, row.where);
        std::error_code ignored;
        clip.cause = "missing";
        check(fs::is_regular_file(clip.path, ignored), "[data] {}: there is no clip {}", row.where,
              clip.path.string());
      });
      listed_.insert(clip.path.lexically_normal());
      if (!options_.images && media::is_image_name(clip.path.string())) {
        leave_out_image(clip.path);
      } else {
        out_.clips.push_back(std::move(clip));
      }
    }
  }

  /// Adds a file that no metadata lists.
  void look_at(const fs::path& path, const ListPath& list) {
    const std::string file = path.filename().string();
    const bool image = media::is_image_name(file);
    if (!image && !media::is_video_name(file)) {
      if (const std::string format = media::unread_image_name(file); !format.empty()) {
        out_.left_out.push_back({name(path), "a " + format + " picture, which is not supported"});
      } else if (!is_companion(path)) {
        others_[path.extension().string()].push_back(name(path));
      }
      return;
    }
    if (list) {
      unlisted_.emplace_back(path, *list);
      return;
    }
    if (image && !options_.images) {
      leave_out_image(path);
      return;
    }
    CaptionedClip clip{path, "", "", ""};
    keep(clip, [&] {
      const fs::path text = caption_file(path);
      std::error_code ignored;
      clip.cause = kNoCaption;
      check(fs::is_regular_file(text, ignored),
            "[data] {} has no caption: {} is not there (nor a .caption), and the folder has no "
            "metadata.jsonl or metadata.csv",
            path.string(), text.filename().string());
      clip.cause = kUnreadable;
      std::string words = io::read_text(text, size_t{1} << 20);
      if (words.starts_with("\xef\xbb\xbf")) {
        words.erase(0, 3);
      }
      clip.cause = kNotUtf8;
      check_caption(words, text.string());
      clip.caption = trimmed(words);
    });
    if (const std::string holder = path.parent_path().filename().string(); has_repeats(holder)) {
      repeats_.insert(name(path.parent_path()));
    }
    out_.clips.push_back(std::move(clip));
  }

  void leave_out_image(const fs::path& path) {
    out_.left_out.push_back({name(path), kImageOfOneFrame});
  }

  /// Many files of a kind get one line: records, weights or tables next to the clips.
  void leave_out_others() {
    for (const auto& [extension, names] : others_) {
      out_.left_out.push_back(
          names.size() == 1 ? SkippedFile{names.front(), "neither a video nor an image by its name"}
                            : SkippedFile{"*" + extension,
                                          std::to_string(names.size()) +
                                              " files, neither videos nor images by their names",
                                          std::ssize(names)});
    }
  }

  void note_repeats() {
    if (!repeats_.empty()) {
      out_.notes.push_back(fmt::format(
          "the number that {}/{} begins with is ignored: each clip counts once an epoch (a clip "
          "that metadata.jsonl names n times counts n times)",
          *repeats_.begin(),
          repeats_.size() == 1 ? "" : fmt::format(" (and {} more)", repeats_.size() - 1)));
    }
  }

  void leave_out_unlisted() {
    for (const auto& [path, list] : unlisted_) {
      if (!listed_.contains(path.lexically_normal())) {
        out_.left_out.push_back({name(path), "not in " + name(list)});
      }
    }
  }

  /// `look` stores in the clip's cause what is checked next.
  template <typename Check>
  void keep(CaptionedClip& clip, const Check& look) const {
    try {
      look();
      clip.cause.clear();
    } catch (const Error& error) {
      clip.problem = error.what();
      check(options_.missing == MissingClip::Keep, "{}", clip.problem);
    }
  }

  std::string name(const fs::path& path) const { return path.lexically_relative(root_).string(); }

  const fs::path& root_;
  const ListOptions& options_;
  bool by_split_ = false;
  Listing out_;
  std::set<fs::path> seen_;        // folders
  std::set<std::string> repeats_;  // folders that kohya's scripts would repeat
  std::map<std::string, std::vector<std::string>>
      others_;                                           // neither videos nor images, by extension
  std::set<fs::path> listed_;                            // files in metadata
  std::vector<std::pair<fs::path, fs::path>> unlisted_;  // with the metadata that lacks them
};

}  // namespace

Listing list_folder(const fs::path& folder, const ListOptions& options) {
  const std::string ending = folder.extension().string();
  const bool is_packed = ending == ".gz" || ending == ".tgz" || ending == ".zst" ||
                         ending == ".bz2" || ending == ".xz" || ending == ".zip";
  const io::FileFormat format = io::file_format(folder);
  check(!format || is_packed, "[data] {}",
        io::wrong_format_text(folder.string(), format, "a folder of clips"));
  check(fs::is_directory(folder), "[data] {} is not a folder{}", folder.string(),
        is_packed ? "\n  unpack it: tars are read as they are, compressed ones are not" : "");
  Listing out = Walk(folder, options).take();
  std::string hint = out.clips.empty() ? other_type_hint(folder, "videos") : "";
  if (hint.empty() && std::ranges::any_of(out.left_out, [](const SkippedFile& each) {
        return each.reason == kImageOfOneFrame;
      })) {
    hint = "num_frames=1 takes the images, as clips of one frame";
  }
  check(!out.clips.empty(), "[data] {} holds no clips{}\n  {}", folder.string(),
        out.left_out.empty() ? ""
                             : fmt::format("; {} file(s) skipped, like {}: {}", out.left_out.size(),
                                           out.left_out.front().file, out.left_out.front().reason),
        hint.empty()
            ? "put videos or images there with a metadata.jsonl of file_name and text, or a .txt "
              "for each"
            : hint);
  return out;
}

std::vector<CaptionedClip> list_clips(const fs::path& folder, const std::string& caption_column,
                                      MissingClip missing) {
  return list_folder(folder, {.caption_column = caption_column, .missing = missing}).clips;
}

fs::path inside(const fs::path& root, const fs::path& base, const std::string& file,
                const std::string& where) {
  const fs::path given = base / file;  // an absolute `file` replaces `base`
  // The system resolves `link/..` to the parent of the link's target; without the dots, a path
  // cannot leave the folder this way.
  fs::path out = given.lexically_normal();
  const fs::path below =
      fs::absolute(out).lexically_relative(fs::absolute(root).lexically_normal());
  check(file.find('\0') == std::string::npos, "[data] {}: the file name {} holds a zero byte",
        where, printable(file));
  check(!below.empty() && *below.begin() != "..",
        "[data] {}: {} lies outside of {}\n  a link inside of the folder is followed", where,
        given.string(), root.string());
  return out;
}

void check_caption(const std::string& caption, const std::string& where) {
  const size_t bad = text::invalid_utf8_at(caption);
  check(bad == std::string::npos, "[data] {}: the caption is not UTF-8 (byte {:#04x} at {})\n  {}",
        where, bad == std::string::npos ? 0 : static_cast<unsigned char>(caption[bad]), bad,
        text::is_utf16(caption)
            ? text::kUtf16Remedy
            : "`iconv -f latin1 -t utf-8` makes UTF-8 of what old editors write");
}

}  // namespace kinema::data
