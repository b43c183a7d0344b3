#pragma once

// Private to the module: the names and counts in train_state.json.

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "kinema/io/json.h"
#include "kinema/training/state.h"
#include "kinema/training/train_state.h"

namespace kinema::training {

/// The folder of the optimizer's moments.
inline constexpr const char* kOptimizer = "optimizer";

/// The name for the second of two experts.
std::string of_expert(const std::string& name, int64_t expert);
/// The name of a count in train_state.json.
std::string count_name(Count count, int64_t expert);

/// Indexed by Count.
using Counts = std::array<int32_t, COUNTS>;

/// Missing counts are equal to the total of updates: an earlier version wrote only that.
Counts read_counts(const io::Json& state, int64_t expert);

/// Throws an Error for a file of a later version.
io::Json read_state_json(const std::filesystem::path& checkpoint);
/// Writes train_state.json; `counts` of each network, by count_name.
void write_state_json(const std::filesystem::path& checkpoint, const TrainState& train,
                      std::span<const io::Json> counts);

}  // namespace kinema::training
