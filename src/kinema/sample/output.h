#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/media/image.h"
#include "kinema/sample/pipeline.h"

namespace kinema::sample {

struct OutputOptions {
  double fps = 16;
  /// Each pixel becomes a square of this many pixels per side in the mp4 and the contact sheet, so
  /// that tiny videos can be seen.
  int enlarge = 1;
  bool contact_sheet = true;
  int64_t contact_sheet_columns = 4;
  /// Also write every frame as `NNN_words/FFFF.png`.
  bool frames = false;
  /// Of pipelines of images, and the quality of JPEG and WebP, 1 to 100.
  media::ImageFormat image_format = media::ImageFormat::PNG;
  int image_quality = 90;
  /// kinema's version, for the video's metadata.
  std::string version = {};
  /// Keys of the configuration that reproduce the videos, for each video's metadata.
  io::Json settings = io::Json::object();
  /// The compiler flags with their origins, for the metadata.
  io::Json flags = io::Json::object();
  /// Existing files stay, and new ones get a number: `000_a_cat_1.mp4`. If false, new files replace
  /// them.
  bool keep_existing = true;
  /// Names that are taken in addition to those in the folder: names in the store to which files are
  /// uploaded.
  std::set<std::string> taken = {};
};

/// The list of the videos in a folder.
inline constexpr const char* kVideoList = "metadata.jsonl";

/// The written files.
struct OutputFiles {
  std::vector<std::filesystem::path> videos;  // one mp4 per prompt
  std::filesystem::path contact_sheet;        // contact_sheet.png; empty for none
  std::vector<std::filesystem::path> frames;  // folders of PNGs, one per video, or none
};

/// Writes `NNN_words_of_the_prompt.mp4` into `folder`, for pipelines of images a picture with
/// the metadata inside (texts `kinema`, and `parameters` as in AUTOMATIC1111's web UI), and for
/// each video a `.json` next to it (all settings that reproduce it), a line in `metadata.jsonl`,
/// and the files that the options request. NNN is the video's index. Two processes may write into
/// one folder.
OutputFiles write_outputs(const std::filesystem::path& folder, const GenerateRequest& request,
                          const Generated& generated, const Pipeline& pipeline,
                          const OutputOptions& options = {});

/// Only the files of single videos: the mp4, the `.json` and the frames.
OutputFiles write_videos(const std::filesystem::path& folder, const GenerateRequest& request,
                         const Generated& generated, const Pipeline& pipeline,
                         const OutputOptions& options);

/// A video in the list and in the contact sheet.
struct ListedVideo {
  std::string file_name;
  std::string prompt;
  HostArray frames;  // frames for the contact sheet; no bytes without a sheet
};
ListedVideo listed_video(const std::filesystem::path& file, const GeneratedVideo& video,
                         const OutputOptions& options);

/// The files that all videos share: list and contact sheet. Returns the contact sheet's path;
/// empty: none. `frame_height`: of the videos.
std::filesystem::path write_list(const std::filesystem::path& folder,
                                 const std::vector<ListedVideo>& videos, int64_t frame_height,
                                 const OutputOptions& options);

/// Load, text, image, compile, denoise, decode and total, one line each.
std::string timing_table(const Generated& generated);
/// The same: {"load": seconds, ...}.
io::Json timing_json(const Generated& generated);

}  // namespace kinema::sample
