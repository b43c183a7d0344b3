#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/data/buckets.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/hf_clips.h"
#include "kinema/data/split.h"
#include "kinema/data/video_source.h"
#include "kinema/job/job.h"

namespace kinema::datasets {

/// Latents and text states that are kept on disk, so that no run encodes a clip twice.
struct KeptEncodings {
  std::filesystem::path folder;
  DType dtype = DType::BF16;
};

/// A data set of clips (videos, or pictures, which are clips of one frame) and how samples are
/// taken of it.
struct ClipSettings {
  std::string name;  // in messages: the folder, or the id on the hub
  std::string folder;
  std::string split_name = "train";  // of a data set whose files or rows name their split
  std::string caption_column;
  /// A Hugging Face data set in Parquet or Arrow files; nothing: a folder of media files.
  std::optional<data::HfOptions> hub;
  bool downloads = false;  // `hub`'s files come from the hub's cache where they are not here
  data::Split split;       // the share that is kept out for evaluation
  /// Sizes that clips are brought to, by aspect ratio; empty: `order.format` alone.
  std::vector<data::Bucket> buckets;
  /// Which clips, in which order, how cropped and mirrored. Without buckets, batch and problems:
  /// those are known once the clips were measured.
  data::VideoOptions order;
  double video_fps = 16;      // frames a second of the videos that the model will make
  bool allow_shrink = false;  // more than half of the clips may be unusable
  int threads = 1;            // that decode
  int64_t decode_ahead = 1;   // clips
  std::optional<KeptEncodings> kept;
  std::filesystem::path run;  // where a list of what was left out is written; empty: nowhere

  bool skips_bad() const { return order.bad_clip == data::BadClip::Skip; }
};

/// Opens the set; one that downloads shows that as a task. Throws an Error for a set that cannot be
/// read; not for single clips that are missing or have no caption: whoever reads one gets that.
std::unique_ptr<data::ClipSet> open_clips(const ClipSettings& settings, const Job& job = {});

/// What one of the clips is called in messages: of one frame, a `picture`, else a `clip`.
const char* clip_noun(const ClipSettings& settings);

}  // namespace kinema::datasets
