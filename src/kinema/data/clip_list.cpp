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
#include <unordered_map>
#include <unordered_set>

#include "kinema/core/errno_text.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/core/printable.h"
#include "kinema/core/trimmed.h"
#include "kinema/data/clip_names.h"
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
constexpr const char* kNoMask = "no mask";
constexpr const char* kNoControl = "no control file";
constexpr size_t kMostMasks = 10'000'000;
constexpr const char* kUnreadable = "caption cannot be read";
constexpr const char* kNotUtf8 = "caption is not UTF-8";

/// Reads a folder and its subfolders.
class Walk {
 public:
  Walk(const fs::path& root, const ListOptions& options) : root_(root), options_(options) {
    if (!options_.caption_extension.empty()) {
      caption_extensions_ = {lower(options_.caption_extension)};
    }
    list_masks();
    if (!options.list.empty()) {
      read_list(options.list);
      note_companions();
      return;
    }
    choose_splits();
    visit(root, std::nullopt);
    leave_out_unlisted();
    leave_out_others();
    note_repeats();
    note_companions();
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

  /// The pictures in the folder of masks by path, relative to it and without extension.
  void list_masks() {
    if (options_.mask_folder.empty()) {
      return;
    }
    std::error_code error;
    check(fs::is_directory(options_.mask_folder, error), "[data] mask_dir {} {}",
          options_.mask_folder.string(), not_a_folder(options_.mask_folder));
    seen_.insert(fs::canonical(options_.mask_folder, error));  // masks are not clips
    for (const std::string& file : file_names(options_.mask_folder, kMostMasks)) {
      if (media::is_image_name(file)) {
        masks_.emplace(fs::path(file).replace_extension(), options_.mask_folder / file);
      }
    }
    check(!masks_.empty(), "[data] mask_dir {} has no pictures", options_.mask_folder.string());
  }

  /// Sets the mask from the folder of masks.
  void find_mask(CaptionedClip& clip) const {
    if (masks_.empty()) {
      return;
    }
    auto found = masks_.find(clip.path.lexically_relative(root_).replace_extension());
    found = found == masks_.end() ? masks_.find(clip.path.stem()) : found;
    clip.cause = kNoMask;
    check(found != masks_.end(), "[data] {} has no mask: no picture in {} is called {}",
          clip.path.string(), options_.mask_folder.string(), clip.path.stem().string());
    clip.mask = found->second;
  }

  void note_companions() {
    const auto masked = std::ranges::count_if(
        out_.clips, [](const CaptionedClip& clip) { return !clip.mask.empty(); });
    if (masked > 0) {
      out_.notes.push_back(
          fmt::format("{} of {} clips have a mask for the loss", masked, out_.clips.size()));
    }
    const auto controlled = std::ranges::count_if(
        out_.clips, [](const CaptionedClip& clip) { return !clip.control.empty(); });
    if (controlled > 0) {
      out_.notes.push_back(
          fmt::format("{} of {} clips have a control or source", controlled, out_.clips.size()));
    }
  }

  /// `above`: the nearest metadata in a parent folder.
  void visit(const fs::path& folder, ListPath above) {
    std::error_code error;
    if (!seen_.insert(fs::canonical(folder, error)).second) {
      return;  // a symbolic link to a parent
    }
    // An entry knows its type, which is a system call less for each file.
    std::vector<fs::directory_entry> entries;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (!at->path().filename().native().starts_with('.')) {
        entries.push_back(*at);
      }
    }
    if (error) {
      check(folder != root_, "[data] {} cannot be read: {}", folder.string(), errno_text(error));
      out_.left_out.push_back({name(folder), "cannot be read: " + error.message()});
      return;
    }
    std::ranges::sort(entries, {}, [](const fs::directory_entry& entry) -> const std::string& {
      return entry.path().native();
    });
    name_companions(entries);
    for (const char* each : kMetadataFiles) {
      if (fs::is_regular_file(folder / each, error)) {
        above = folder / each;
      }
    }
    if (above && above->parent_path() == folder) {
      read_list(*above);
    }
    std::vector<fs::path> folders;
    for (const fs::directory_entry& entry : entries) {
      if (entry.is_directory(error)) {
        if (options_.subfolders) {
          folders.push_back(entry.path());
        }
      } else {
        look_at(entry, above);
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

  /// The folder's caption files, by stem and extension in lower case, and the stems of its clips.
  void name_companions(const std::vector<fs::directory_entry>& entries) {
    captions_.clear();
    stems_.clear();
    for (const fs::directory_entry& entry : entries) {
      const fs::path& path = entry.path();
      const std::string stem = path.stem().string();
      const std::string extension = lower(path.extension().string());
      std::error_code ignored;
      if (std::ranges::count(caption_extensions_, extension) > 0) {
        if (entry.is_regular_file(ignored)) {
          captions_.emplace(stem + extension, path);
        }
      } else if (masked_stem(stem).empty() && media::is_image_name("x" + extension)) {
        stems_.insert(stem);
      }
    }
  }

  /// `.txt`, else kohya's `.caption`, in any case; empty if there is none.
  fs::path caption_file(const fs::path& clip) const {
    const std::string stem = clip.stem().string();
    for (const std::string& extension : caption_extensions_) {
      const auto found = captions_.find(stem + extension);
      if (found != captions_.end()) {
        return found->second;
      }
    }
    return {};
  }

  void read_list(const fs::path& path) {
    Metadata metadata = read_metadata(path, options_.caption_column);
    if (!metadata.note.empty()) {
      out_.notes.push_back(fmt::format("{}: {}", name(path), metadata.note));
    }
    std::vector<std::string> repeated;
    for (MetadataRow& row : metadata.rows) {
      CaptionedClip clip{path.parent_path() / row.file, std::move(row.caption), "", ""};
      keep(clip, [&] {
        clip.cause = kNotUtf8;
        check_caption(clip.caption, row.where);
        clip.cause = "outside of the folder";
        check(!row.file.empty(), "[data] {}: the file name is empty", row.where);
        clip.path = with_extension(options_.list.empty()
                                       ? inside(root_, path.parent_path(), row.file, row.where)
                                       : root_ / row.file);  // an absolute name replaces the folder
        std::error_code ignored;
        clip.cause = "missing";
        check(fs::is_regular_file(clip.path, ignored), "[data] {}: there is no clip {}", row.where,
              clip.path.string());
        const auto beside = [&](const std::string& file, const char* what, const char* missing) {
          if (file.empty()) {
            return fs::path();
          }
          clip.cause = "outside of the folder";
          const fs::path out = options_.list.empty()
                                   ? inside(root_, path.parent_path(), file, row.where)
                                   : root_ / file;
          clip.cause = missing;
          check(fs::is_regular_file(out, ignored), "[data] {}: there is no {} {}", row.where, what,
                out.string());
          listed_.insert(out.lexically_normal());
          return out;
        };
        clip.mask = beside(row.mask, "mask", kNoMask);
        if (clip.mask.empty()) {
          find_mask(clip);
        }
        clip.control = beside(row.control, "control file", kNoControl);
        clip.control_mask = beside(row.control_mask, "control_mask", kNoControl);
        clip.cause = kNoControl;
        for (const std::string& reference : row.references) {
          clip.references.push_back(beside(reference, "reference picture", kNoControl));
        }
      });
      if (!listed_.insert(clip.path.lexically_normal()).second) {
        repeated.push_back(name(clip.path));
      }
      if (!options_.images && media::is_image_name(clip.path.string())) {
        leave_out_image(clip.path);
      } else {
        out_.clips.push_back(std::move(clip));
      }
    }
    if (!repeated.empty()) {
      out_.notes.push_back(fmt::format(
          "{}: {} more than once, the first of them {}: each row is a sample", name(path),
          repeated.size() == 1 ? "1 row lists a file"
                               : fmt::format("{} rows list a file", repeated.size()),
          repeated.front()));
    }
  }

  /// kohya's lists have names without an extension.
  static fs::path with_extension(const fs::path& path) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      for (const char* extension : {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".avif"}) {
        if (fs::path picture = path.string() + extension; fs::exists(picture, ignored)) {
          return picture;
        }
      }
    }
    return path;
  }

  /// Adds a file that no metadata lists.
  void look_at(const fs::directory_entry& entry, const ListPath& list) {
    const fs::path& path = entry.path();
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
    std::error_code ignored;
    if (entry.is_other(ignored)) {
      out_.left_out.push_back({name(path), "a pipe, socket or device, not a file"});
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
    if (image && stems_.contains(masked_stem(path.stem().string()))) {
      out_.left_out.push_back({name(path), "a mask by its name, which mask_dir=FOLDER uses"});
      return;
    }
    // The set's own folder may have any name.
    const bool is_inner = options_.class_folders && path.parent_path() != root_;
    const std::optional<ClassFolder> holder =
        is_inner ? class_folder(path.parent_path().filename().string()) : std::nullopt;
    CaptionedClip clip{path, "", "", ""};
    keep(clip, [&] {
      clip.caption = caption_of(clip, holder);
      find_mask(clip);
    });
    if (holder) {
      class_folders_.try_emplace(name(path.parent_path()), *holder);
    }
    const int64_t times = holder ? holder->repeats : 1;
    for (int64_t i = 1; i < times; ++i) {
      out_.clips.push_back(clip);
    }
    out_.clips.push_back(std::move(clip));
  }

  /// The caption of a clip that no metadata lists. Sets the clip's cause to what is checked next.
  std::string caption_of(CaptionedClip& clip, const std::optional<ClassFolder>& holder) {
    const fs::path text = caption_file(clip.path);
    if (text.empty() && holder && !holder->words.empty()) {
      ++by_class_[name(clip.path.parent_path())];
      return holder->words;
    }
    if (text.empty() && !options_.class_words.empty()) {
      return options_.class_words;
    }
    clip.cause = kNoCaption;
    check(!text.empty(),
          "[data] {} has no caption: {} is not there{}, and the folder has no metadata.jsonl or "
          "metadata.csv",
          clip.path.string(), clip.path.stem().string() + caption_extensions_.front(),
          options_.caption_extension.empty() ? " (nor a .caption)" : " (caption_extension)");
    clip.cause = kUnreadable;
    std::string words = io::read_text(text, size_t{1} << 20);
    if (words.starts_with("\xef\xbb\xbf")) {
      words.erase(0, 3);
    }
    clip.cause = kNotUtf8;
    check_caption(words, text.string());
    return std::string(trimmed(words));
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
    for (const auto& [folder, holder] : class_folders_) {
      const auto found = by_class_.find(folder);
      if (holder.repeats == 1 && found == by_class_.end()) {
        continue;
      }
      std::string line = fmt::format(
          "{}/: each clip counts {} an epoch, by the folder's name", folder,
          holder.repeats == 1 ? std::string("once") : fmt::format("{} times", holder.repeats));
      if (found != by_class_.end()) {
        line += fmt::format("; {} without a caption {} `{}`", found->second,
                            found->second == 1 ? "has" : "have", holder.words);
      }
      out_.notes.push_back(std::move(line));
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
  std::set<fs::path> seen_;                                          // folders
  std::vector<std::string> caption_extensions_{".txt", ".caption"};  // by priority
  std::unordered_map<std::string, fs::path> captions_;  // caption files of the folder that is read
  std::unordered_set<std::string> stems_;               // its pictures
  std::map<fs::path, fs::path> masks_;  // by path without extension, relative to mask_folder
  std::map<std::string, ClassFolder> class_folders_;
  std::map<std::string, int64_t> by_class_;  // clips with the folder's words as caption
  std::map<std::string, std::vector<std::string>>
      others_;                                           // neither videos nor images, by extension
  std::set<fs::path> listed_;                            // files in metadata
  std::vector<std::pair<fs::path, fs::path>> unlisted_;  // with the metadata that lacks them
};

}  // namespace

std::vector<std::pair<std::string, fs::path>> CaptionedClip::beside() const {
  std::vector<std::pair<std::string, fs::path>> out{
      {"mask", mask}, {"control", control}, {"control mask", control_mask}};
  for (const fs::path& each : references) {
    out.emplace_back("reference", each);
  }
  std::erase_if(out, [](const auto& each) { return each.second.empty(); });
  return out;
}

Listing list_folder(const fs::path& folder, const ListOptions& options) {
  const std::string ending = folder.extension().string();
  const bool is_packed = ending == ".gz" || ending == ".tgz" || ending == ".zst" ||
                         ending == ".bz2" || ending == ".xz" || ending == ".zip";
  const io::FileFormat format = io::file_format(folder);
  check(!format || is_packed, "[data] {}",
        io::wrong_format_text(folder.string(), format, "a folder of clips"));
  check(fs::is_directory(folder), "[data] {} {}{}", folder.string(), not_a_folder(folder),
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
