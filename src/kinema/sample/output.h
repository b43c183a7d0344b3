#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/sample/pipeline.h"

namespace kinema::sample {

struct OutputOptions {
  double fps = 16;
  /// Each pixel becomes a square of this many a side in the mp4 and the contact sheet, so that tiny
  /// videos can be looked at.
  int enlarge = 1;
  bool contact_sheet = true;
  int64_t contact_sheet_columns = 4;
  /// Every frame as `NNN_words/FFFF.png` too.
  bool frames = false;
  /// Of the program, for the video's metadata.
  std::string version = {};
  /// What makes the videos again, as keys of the configuration: part of each video's metadata.
  io::Json settings = io::Json::object();
  /// The compiler's flags that were given, with origins; part of the metadata too.
  io::Json flags = io::Json::object();
  /// Files that are there take the place of new ones, which get a number: `000_a_cat_1.mp4`. Else
  /// new ones take theirs.
  bool keep_existing = true;
  /// Names that are taken beside those in the folder: of the store that the files go to.
  std::set<std::string> taken = {};
};

/// The list of the videos in a folder.
inline constexpr const char* kVideoList = "metadata.jsonl";

/// Files that were written.
struct OutputFiles {
  std::vector<std::filesystem::path> videos;  // one mp4 a prompt
  std::filesystem::path contact_sheet;        // contact_sheet.png; empty for none
  std::vector<std::filesystem::path> frames;  // folders of PNGs, one a video, or none
};

/// Writes `NNN_words_of_the_prompt.mp4`, of pipelines that make images `.png` with the same words
/// inside (`iTXt`, `kinema`), with a `.json` beside it (everything that the video follows from) for
/// each video, a line of it into `metadata.jsonl`, and what the options ask for, into `folder`. NNN
/// is the video's index. Two processes may write into one folder.
OutputFiles write_outputs(const std::filesystem::path& folder, const GenerateRequest& request,
                          const Generated& generated, const Pipeline& pipeline,
                          const OutputOptions& options = {});

/// Of that, what each video has for itself: its mp4, its `.json` and its frames.
OutputFiles write_videos(const std::filesystem::path& folder, const GenerateRequest& request,
                         const Generated& generated, const Pipeline& pipeline,
                         const OutputOptions& options);

/// A video as the list and the contact sheet of all show it.
struct ListedVideo {
  std::string file_name;
  std::string prompt;
  HostArray frames;  // those that the sheet shows; no bytes without a sheet
};
ListedVideo listed_video(const std::filesystem::path& file, const GeneratedVideo& video,
                         const OutputOptions& options);

/// The rest: what all videos have together. Returns the contact sheet's path; empty: none.
/// `frame_height`: of the videos.
std::filesystem::path write_list(const std::filesystem::path& folder,
                                 const std::vector<ListedVideo>& videos, int64_t frame_height,
                                 const OutputOptions& options);

/// Load, text, image, compile, denoise, decode and total, a line each.
std::string timing_table(const Generated& generated);
/// The same: {"load": seconds, ...}.
io::Json timing_json(const Generated& generated);

}  // namespace kinema::sample
