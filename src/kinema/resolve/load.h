#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "kinema/config/config.h"
#include "kinema/job/job.h"

namespace kinema::resolve {

/// config::load with what this room knows: a file of a store is brought here, one that comes with
/// the installed program (`configs/wan.yml`) is found there unless there is one of that path here.
/// Without a file, the defaults. Throws an Error too where a key names a store that takes none.
config::Loaded load(const std::string& file, std::span<const std::string> overrides,
                    std::span<const std::string> environment, const Job& job = {});

/// The same of words as a command line has them: key=value and at most one file, in any order.
config::Loaded load_words(std::span<const std::string> words,
                          std::span<const std::string> environment, const Job& job = {});

/// load_words of what generate takes: FOLDER, `org/name`, VIDEO.json or PICTURE.png may stand in
/// place of a file. A pipeline's folder or hub id is the model, and the `.json` beside a video, or
/// a picture that kinema made, holds settings that make it again; what of these cannot be taken
/// from somebody else's is told.
config::Loaded load_generation(std::span<const std::string> words,
                               std::span<const std::string> environment, const Job& job = {});

/// Reads the values that are lists within lists or mappings (rules, block sizes, LoRA files, flags)
/// as jobs do, without their plugin or files. Throws their Errors.
void check_values(const config::Loaded& loaded);

/// Whether it stands there, or in what a video or an image was made with.
bool wins_over_files(const config::Loaded& loaded, const std::string& key);

}  // namespace kinema::resolve
