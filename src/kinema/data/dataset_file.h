#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinema/data/clip_list.h"
#include "kinema/data/clip_set.h"
#include "kinema/data/set_rules.h"

/// Several data sets: of a run's configuration, or in TOML files of kohya's scripts and of
/// musubi-tuner: `[general]`, `[[datasets]]` and
/// `[[datasets.subsets]]`.
namespace kinema::data {

/// The rules of captions that a part of a data set has instead of the run's.
struct CaptionChanges {
  std::optional<bool> wildcards, shuffle, any_line;
  std::optional<double> dropout;
  std::optional<std::string> separator, keep_separator;
  std::optional<int64_t> keep;

  CaptionRules applied_to(CaptionRules rules) const;
};

/// A folder of clips, or a list of clips with captions.
struct DatasetPart {
  /// Weight, mirroring and, once known (own_sizes), sizes. The name is set when it is opened.
  SetRules rules;
  SizeChanges sizes;
  bool folders = false;  // with subfolders, and repeats and captions from their names
  std::filesystem::path folder;
  std::filesystem::path list;   // empty: the folder's own metadata or caption files
  std::filesystem::path masks;  // ListOptions::mask_folder; empty: the run's
  bool no_masks = false;        // not the run's either
  int64_t repeats = 1;          // of each clip in an epoch
  std::string class_words;      // the caption of clips without one
  std::string caption_extension;
  std::string caption_prefix, caption_suffix;
  CaptionChanges captions;
  std::string where;  // `fox.toml: datasets[0].subsets[1]`
};

struct DatasetFile {
  std::vector<DatasetPart> parts;
  std::vector<std::string> notes = {};  // keys that are not read
};

/// True for an existing `.toml` file.
bool is_dataset_file(const std::filesystem::path& path);

/// Reads the file. Relative paths are those of the working directory, or else of the file's folder.
/// Throws an Error with the place of a key that is unknown, or that asks for something which this
/// program does not do or has in its configuration (`random_crop`).
DatasetFile read_dataset_file(const std::filesystem::path& path);

/// The clips, part after part, each repeated; ListOptions::images is that of parts without sizes
/// of their own, others take pictures if one of their sizes is of one frame. Throws the Errors of
/// list_folder, with the part's place.
std::unique_ptr<ClipSet> dataset_clips(DatasetFile file, const ListOptions& options,
                                       const ClipFormat& format);

}  // namespace kinema::data
