#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kinema/data/clip_set.h"

namespace kinema::data {

/// Which files and columns of a Hugging Face data set are read.
struct HfOptions {
  std::filesystem::path folder;  // or one file
  std::string split = "train";
  /// Only files below this folder of it; empty: all.
  std::string data_dir;
  /// Only files that fit one of these patterns (`data/train-*.parquet`); empty: all.
  std::vector<std::string> files;
  std::string media_column = "image";
  std::string caption_column = "text";
  /// Cells may hold whole paths of this machine, as the datasets library's own cache has them; a
  /// data set of someone else's must not.
  bool whole_paths = true;
};

/// Parquet and Arrow files of a folder that belong to a split, in order of name. A file belongs to
/// the split that its name begins with (`train-00000-of-00002.parquet`) or that a folder on its way
/// is called (`train/0000.parquet`); where no file names a split, all belong to `train`.
///
/// `names` are paths inside a data set. Throws an Error that says what is there when none is left.
std::vector<std::string> choose_hf_files(std::vector<std::string> names, const HfOptions& options);

/// Rows of these files as clips: videos, or images, which are clips of one frame. Throws an Error
/// for files that cannot be read; a bad row is the Error of whoever reads it.
std::unique_ptr<ClipSet> hf_clips(const HfOptions& options);

}  // namespace kinema::data
