#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinema/core/dtype.h"
#include "kinema/data/auto_buckets.h"
#include "kinema/data/buckets.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/dataset_file.h"
#include "kinema/data/hf_clips.h"
#include "kinema/data/split.h"
#include "kinema/data/video_source.h"
#include "kinema/job/job.h"

namespace kinema::datasets {

/// The cache of latents and text states on disk, so that no run encodes a clip twice.
struct EncodingCache {
  std::filesystem::path folder;
  DType dtype = DType::BF16;
};

/// A data set of clips (videos, or pictures as clips of one frame) and the sampling of it.
struct ClipSettings {
  std::string name;  // for messages: the folder, or the id on the hub
  std::string folder;
  std::string split_name = "train";  // for a data set whose files or rows have a split
  std::string caption_column;
  /// A Hugging Face data set in Parquet or Arrow files; nothing: a folder of media files.
  std::optional<data::HfOptions> hub;
  /// Several data sets instead of `folder`.
  std::optional<data::DatasetFile> sets = {};
  std::filesystem::path mask_folder;  // data::ListOptions::mask_folder
  bool downloads = false;             // missing files of `hub` are downloaded to the hub's cache
  data::Split split;                  // the held-out share for evaluation
  /// The sizes of samples by aspect ratio; empty: only `order.format`. Data sets may have their
  /// own.
  std::vector<data::Bucket> buckets;
  /// Instead of these, sizes chosen by the clips' aspect ratios.
  std::optional<data::AutoBuckets> automatic = {};
  /// Selection, order, crop and mirroring of clips. Buckets, batch and problems are set after the
  /// clips were measured.
  data::VideoOptions order;
  /// VideoOptions::mask_kinds for networks that fill in a masked part.
  std::vector<data::MaskKind> mask_kinds = {};
  double video_fps = 16;      // frames per second of the model's videos
  bool allow_shrink = false;  // allows that more than half of the clips are unusable
  int threads = 1;            // for decoding
  int64_t decode_ahead = 1;   // clips
  std::optional<EncodingCache> kept;
  std::filesystem::path run;  // the folder for the list of skipped clips; empty: none

  /// Every size that samples may have.
  std::vector<data::Bucket> possible_sizes() const;
  /// True if a data set has sizes of its own.
  bool has_own_sizes() const;
  /// True if some clips are used mirrored.
  bool flips() const;
  /// True if the colours of some clips change.
  bool changes_colors() const;
  bool skips_bad() const { return order.bad_clip == data::BadClip::Skip; }
};

/// Opens the set, with a task if it downloads. Throws an Error for a set that cannot be read; a
/// single clip without a file or caption causes an Error when that clip is read.
std::unique_ptr<data::ClipSet> open_clips(const ClipSettings& settings, const Job& job = {});

/// The name of a clip in messages: `picture` for clips of one frame, else `clip`.
const char* clip_noun(const ClipSettings& settings);

}  // namespace kinema::datasets
