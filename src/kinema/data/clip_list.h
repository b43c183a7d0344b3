#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kinema/data/clip_set.h"

/// The clips of a folder and their captions.
namespace kinema::data {

/// A clip and its caption.
struct CaptionedClip {
  std::filesystem::path path;
  std::string caption;
  std::string problem;              // why it cannot be used; only if list_folder keeps such clips
  std::string cause;                // a short form of the problem: ClipSet::cause
  std::filesystem::path mask = {};  // a picture (ClipSet::read_mask); empty: none
  // Of ClipSet::read_control; empty: none.
  std::filesystem::path control = {};
  std::filesystem::path control_mask = {};
  std::vector<std::filesystem::path> references = {};

  /// All files but the clip's own, with what they are.
  std::vector<std::pair<std::string, std::filesystem::path>> beside() const;
};

/// What list_folder does with a clip that is missing or has no caption.
enum class MissingClip : uint8_t { Fail, Keep };

struct ListOptions {
  /// The caption's field; `text` also matches `caption`, `prompt` and `description`.
  std::string caption_column = "text";
  MissingClip missing = MissingClip::Fail;
  /// Images are clips of one frame; if false, they are skipped.
  bool images = true;
  /// If the subfolders are named for several splits (`train`, `test`), only the clips of this one
  /// are read; empty: all.
  std::string split = "train";
  /// If not empty, the only extension of caption files, such as `.cap`.
  std::string caption_extension = {};
  /// The caption of clips without one.
  std::string class_words = {};
  /// Read repeats and captions from folders' names (`10_red fox`).
  bool class_folders = true;
  bool subfolders = true;
  /// If not empty, the list of clips (metadata.h) instead of one in the folder. The user names it,
  /// so its clips may lie anywhere; names without an extension are those of pictures.
  std::filesystem::path list = {};
  /// If not empty, the folder of the clips' masks: pictures with the clips' stems, in equal
  /// subfolders or all in the folder itself. If it is inside of the clips' folder, its pictures are
  /// not clips.
  std::filesystem::path mask_folder = {};
};

struct Listing {
  std::vector<CaptionedClip> clips;
  std::vector<SkippedFile> left_out;
  std::vector<std::string> notes;  // ClipSet::notes
};

/// Clips of a folder and its subfolders, following links. A folder's captions are in its
/// `metadata.jsonl`, `.csv`, `.tsv` or `.parquet`, or in that of the nearest parent folder (with
/// file names relative to the metadata's folder); without metadata, in a `.txt` of the clip's name,
/// else a `.caption`, whose extensions may have any case. Hidden files are ignored.
///
/// As in kohya's scripts, clips of a subfolder `10_red ball` without metadata are listed 10 times,
/// and those without a caption have `red ball`.
///
/// Masks are in ListOptions::mask_folder, or named in the metadata's `mask` fields; files from
/// which a network makes the clip, in other fields (MetadataRow). They are no clips.
///
/// Throws an Error with file and line for invalid metadata. Throws an Error for a clip that is
/// missing, outside of the folder, without a caption or without a mask in the folder of masks,
/// unless it is kept with the reason as its `problem`.
Listing list_folder(const std::filesystem::path& folder, const ListOptions& options = {});

/// The clips of a folder as a set, or those of its tars (tar_clips). Throws their Errors, except
/// for clips that are kept with a problem: reading such a clip throws.
std::unique_ptr<ClipSet> folder_clips(const std::filesystem::path& folder,
                                      const ListOptions& options);

/// Only the clips.
std::vector<CaptionedClip> list_clips(const std::filesystem::path& folder,
                                      const std::string& caption_column = "text",
                                      MissingClip missing = MissingClip::Fail);

/// The path of `file`, an entry of metadata in `base`, if it is inside `root`; links are not
/// resolved. Throws an Error that starts with `where` for a path outside: a data set must not read
/// other files of this machine.
std::filesystem::path inside(const std::filesystem::path& root, const std::filesystem::path& base,
                             const std::string& file, const std::string& where);

/// Throws an Error that starts with `where` if a caption is not UTF-8.
void check_caption(const std::string& caption, const std::string& where);

}  // namespace kinema::data
