#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kinema/config/config.h"

/// What a checkpoint keeps of the configuration that it was made with, and what a run that goes on
/// from it does with values that differ: each key's OnResume says.
namespace kinema::config {

/// Key -> value as JSON on one line, of keys that are not UNRELATED.
using Record = std::map<std::string, std::string>;

/// `resolved`: what was derived (samples of a step, sizes of a pretrained model) in the place of
/// values that mean "as it comes".
Record record_of(const Config& resolved);

/// Throws an Error that names key, both values and the remedy where a key that must match does
/// not. What either side does not have is skipped: records of other versions have other keys.
void check_matches(const Record& before, const Record& now,
                   const std::filesystem::path& checkpoint);

/// `learning_rate: 0.0001 -> 0.0002`, a line for each key that may change and did, in the order of
/// declaration.
std::vector<std::string> changes(const Record& before, const Record& now);

}  // namespace kinema::config
