#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kinema/data/clip_set.h"

/// Which files of a folder are clips, and what is said of each.
namespace kinema::data {

/// One clip and what is said of it.
struct CaptionedClip {
  std::filesystem::path path;
  std::string caption;
  std::string problem;  // why it cannot be used; only where list_folder was to keep such clips
  std::string cause;    // the same in few words: ClipSet::cause
};

/// What list_folder does about a clip that is not there or has no caption.
enum class MissingClip : uint8_t { Fail, Keep };

struct ListOptions {
  /// The field of the caption; `text` stands for `caption`, `prompt` and `description` too.
  std::string caption_column = "text";
  MissingClip missing = MissingClip::Fail;
  /// Images are clips of one frame; false: they are left out.
  bool images = true;
  /// Where folders directly below are named for several splits (`train`, `test`), only this one's
  /// clips are read; empty: all.
  std::string split = "train";
};

struct Listing {
  std::vector<CaptionedClip> clips;
  std::vector<LeftOut> left_out;
  std::vector<std::string> notes;  // ClipSet::notes
};

/// Clips of a folder and the folders below it, links followed. A folder's captions come from its
/// `metadata.jsonl` or `metadata.csv` or that of the nearest folder above, whose file names are
/// meant from where it lies; where there is none, from a `.txt` of the clip's name, else a
/// `.caption`. Hidden files are not looked at.
///
/// Throws an Error that names file and line for metadata that cannot be read and, unless it is to
/// be kept with the reason as its `problem`, for a clip that is not there, lies outside of the
/// folder or has no caption.
Listing list_folder(const std::filesystem::path& folder, const ListOptions& options = {});

/// The clips alone.
std::vector<CaptionedClip> list_clips(const std::filesystem::path& folder,
                                      const std::string& caption_column = "text",
                                      MissingClip missing = MissingClip::Fail);

/// `file`, which a list in `base` names, when it lies inside of `root`; links are not looked
/// through. Throws an Error that begins with `where` for one outside: what a data set's author
/// wrote must not reach other files of this machine.
std::filesystem::path inside(const std::filesystem::path& root, const std::filesystem::path& base,
                             const std::string& file, const std::string& where);

/// Throws an Error that begins with `where` when a caption is no UTF-8.
void check_caption(const std::string& caption, const std::string& where);

}  // namespace kinema::data
