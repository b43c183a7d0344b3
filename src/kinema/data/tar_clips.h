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

/// Clips in tars, as the webdataset library lays them out.
namespace kinema::data {

/// Files of a tar that belong together: `a/clip.mp4` and `a/clip.txt` have the key `a/clip`.
struct TarSample {
  std::string key;
  std::vector<std::pair<std::string, io::TarMember>> parts;  // by ending, in small letters

  const io::TarMember* find(const std::string& ending) const;
};

/// The key of a name and its ending, which begins at the first dot of the last part; nothing for a
/// name without.
std::optional<std::pair<std::string, std::string>> key_and_ending(const std::string& name);

/// Neighbours of one key are a sample; names without a key and those of webdataset itself
/// (`__...__`) belong to none. Throws an Error that begins with `where` for a key that has an
/// ending twice.
std::vector<TarSample> group_samples(std::span<const io::TarMember> members,
                                     const std::string& where);

/// Whether a path is a tar, or a folder whose only clips are in tars.
bool holds_tars(const std::filesystem::path& path);

/// The samples of a tar, or of a folder's tars in order of name, that have a video or, with
/// `images`, an image. Captions come from `.txt` or from a field of `.json`. Throws an Error for a
/// tar that cannot be read and, unless it is to be kept, for a sample without a caption.
std::unique_ptr<ClipSet> tar_clips(const std::filesystem::path& path, const ListOptions& options);

}  // namespace kinema::data
