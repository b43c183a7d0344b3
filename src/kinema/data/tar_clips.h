#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/data/clip_list.h"
#include "kinema/data/clip_set.h"
#include "kinema/io/tar.h"

/// Clips in tars, in the layout of the webdataset library.
namespace kinema::data {

/// Files of a tar that form a sample: `a/clip.mp4` and `a/clip.txt` have the key `a/clip`.
struct TarSample {
  std::string key;
  std::vector<std::pair<std::string, io::TarMember>> parts;  // by ending, in lower case

  const io::TarMember* find(const std::string& ending) const;
};

/// The key of a name and its ending, which starts at the first dot of the last path part; nothing
/// for a name without an ending.
std::optional<std::pair<std::string, std::string>> key_and_ending(const std::string& name);

/// Consecutive files with the same key form a sample; names without a key and webdataset's internal
/// ones (`__...__`) are skipped. Throws an Error that starts with `where` if a key has an ending
/// twice.
std::vector<TarSample> group_samples(std::span<const io::TarMember> members,
                                     const std::string& where);

/// True for a tar, and for a folder whose only clips are in tars.
bool contains_tars(const std::filesystem::path& path);

/// The samples of a tar, or of a folder's tars sorted by name, that have a video or, with `images`,
/// an image. Captions are in `.txt` or in a field of `.json`. Throws an Error for a tar that cannot
/// be read and, unless such samples are kept, for a sample without a caption.
std::unique_ptr<ClipSet> tar_clips(const std::filesystem::path& path, const ListOptions& options);

}  // namespace kinema::data
