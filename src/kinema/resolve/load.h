#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "kinema/config/config.h"
#include "kinema/job/job.h"

namespace kinema::resolve {

/// config::load for paths in stores and shipped configurations: downloads a file of a store, and
/// finds `configs/wan.yml` in the installation unless such a local path exists. Without a file, the
/// defaults. Also throws an Error if a key that does not support stores names one.
config::Loaded load(const std::string& file, std::span<const std::string> overrides,
                    std::span<const std::string> environment, const Job& job = {});

/// The same for command line arguments: key=value and at most one file, in any order.
config::Loaded load_command_line(std::span<const std::string> words,
                                 std::span<const std::string> environment, const Job& job = {});

/// load_command_line for `generate`, which accepts FOLDER, `org/name`, VIDEO.json or PICTURE.png
/// instead of a configuration. A pipeline's folder or hub id is the model; the `.json` of a video,
/// or a picture made by kinema, contains the settings that make it again. Settings that are not
/// taken from a shared file are logged.
config::Loaded load_generation(std::span<const std::string> words,
                               std::span<const std::string> environment, const Job& job = {});

/// Parses values that are nested lists or mappings (rules, block sizes, LoRA files, flags) as jobs
/// do, without their plugin or files. Throws their Errors.
void check_values(const config::Loaded& loaded);

/// True if the key is on the command line, or in the settings of a video or picture.
bool wins_over_files(const config::Loaded& loaded, const std::string& key);

}  // namespace kinema::resolve
