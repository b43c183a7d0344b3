#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kinema/config/config.h"

namespace kinema::resolve {

/// What the `.json` beside a video, or a picture itself, which others may have written, has for
/// this machine: by what each key's declaration says of sharing (config::Share).
struct SharedSettings {
  std::filesystem::path file;
  std::vector<std::string> words;     // key=value of what is taken
  std::vector<std::string> made_of;   // keys of files and models that must be given anew
  std::vector<std::string> left_out;  // keys that are not its affair
};

/// True for a name that such a file may have: `.json`, or `.png`.
bool may_hold_settings(const std::filesystem::path& file);

/// Reads `settings` of such a file: of a PNG, of the text that is in it under `kinema`. One that
/// still lies among the samples of the run that it names has that run's `output_dir` too. Throws an
/// Error that names file and key where it is none (a picture of another program), is cut off, or
/// has a key that nobody knows.
SharedSettings read_shared_settings(const std::filesystem::path& file);

/// Throws an Error where something that the video was made of was not given. Returns a line about
/// what was left out and not given, or nothing.
std::vector<std::string> check_given(const SharedSettings& shared, const config::Loaded& loaded);

}  // namespace kinema::resolve
