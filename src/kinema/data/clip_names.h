#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

/// What the names of files and folders beside clips mean.
namespace kinema::data {

/// True for files that are expected next to clips.
bool is_companion(const std::filesystem::path& path);

/// The split at the start of a folder's name, as in the datasets library; empty: none.
std::string split_of(const std::string& name);

/// In small letters, of ASCII.
std::string lower(std::string text);

/// The folder name `10_red ball` of kohya's scripts: each picture counts 10 times an epoch, and the
/// words are the caption of pictures without one.
struct ClassFolder {
  int64_t repeats = 1;
  std::string words;
};
/// Nothing for another name. More than 1,000 repeats are part of a name, such as a year's.
std::optional<ClassFolder> class_folder(const std::string& name);

/// The picture's stem that a mask's name begins with (OneTrainer's `a-masklabel.png`,
/// `a-mask.png`); empty for another file.
std::string masked_stem(const std::string& stem);

}  // namespace kinema::data
