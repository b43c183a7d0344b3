#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kinema/config/config.h"

/// The record of the configuration in a checkpoint, and its comparison with a resumed run's values
/// according to each key's OnResume.
namespace kinema::config {

/// Key -> value as JSON on one line, for keys that are not UNRELATED.
using Record = std::map<std::string, std::string>;

/// `resolved`: with derived values (samples per step, sizes of a pretrained model), not defaults.
Record record_of(const Config& resolved);

/// Throws an Error with key, both values and the remedy if a MUST_MATCH key differs. Keys that one
/// record lacks are skipped: other versions have other keys.
void check_matches(const Record& before, const Record& now,
                   const std::filesystem::path& checkpoint);

/// `learning_rate: 0.0001 -> 0.0002`, one line per MAY_CHANGE key that differs, in order of
/// declaration.
std::vector<std::string> changes(const Record& before, const Record& now);

}  // namespace kinema::config
