#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kinema/config/config.h"

namespace kinema::resolve {

/// Settings from the `.json` of a video, or from a picture, which another user may have written.
/// What this machine uses of them follows from config::Share of each key.
struct SharedSettings {
  std::filesystem::path file;
  std::vector<std::string> words;          // key=value of the settings that are used
  std::vector<std::string> required_keys;  // keys of files and models, which must be given again
  std::vector<std::string> left_out;       // keys of the other machine
  std::string model;                       // a checkpoint's name in another program
  std::vector<std::string> not_read;       // names that another program has for its settings
};

/// True for a file name with the suffix `.json` or `.png`.
bool may_hold_settings(const std::filesystem::path& file);

/// Reads `settings` of such a file; of a PNG, from its text chunk `kinema`, else from those of
/// other programs (foreign_settings.h). If the file is still among the samples of the run that it
/// names, `output_dir` is set too. Throws an Error that names file and key if it is a picture of
/// another program, is truncated, or has an unknown key.
SharedSettings read_shared_settings(const std::filesystem::path& file);

/// Throws an Error if a model or file of the video was not given. Returns a log line about skipped
/// keys that were not given, or nothing.
std::vector<std::string> check_given(const SharedSettings& shared, const config::Loaded& loaded);

}  // namespace kinema::resolve
