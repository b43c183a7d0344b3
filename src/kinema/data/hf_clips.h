#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kinema/data/clip_set.h"

namespace kinema::data {

/// The files and columns of a Hugging Face data set to read.
struct HfOptions {
  std::filesystem::path folder;  // or a single file
  std::string split = "train";
  /// Only files below this subfolder; empty: all.
  std::string data_dir;
  /// Only files that match one of these patterns (`data/train-*.parquet`); empty: all.
  std::vector<std::string> files;
  std::string media_column = "image";
  std::string caption_column = "text";
  /// Cells may contain absolute paths of this machine, as in the datasets library's cache; a
  /// downloaded data set's must not.
  bool whole_paths = true;
};

/// Parquet and Arrow files of a folder that belong to a split, sorted by name. A file belongs to
/// the split at the start of its name (`train-00000-of-00002.parquet`) or in the name of a parent
/// folder (`train/0000.parquet`); if no file names a split, all belong to `train`.
///
/// `names` are paths inside a data set. Throws an Error that lists the files if none is left.
std::vector<std::string> choose_hf_files(std::vector<std::string> names, const HfOptions& options);

/// Rows of these files as clips: videos, or images, which are clips of one frame. Throws an Error
/// for files that cannot be read; a bad row throws when it is read.
std::unique_ptr<ClipSet> hf_clips(const HfOptions& options);

}  // namespace kinema::data
