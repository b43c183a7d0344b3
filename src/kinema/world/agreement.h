#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/world/world.h"

namespace kinema::world {

/// What all processes of a run must have alike, by name: keys, the program, the plugin, the data.
/// Of several that differ the first are told.
using StartRecord = std::vector<std::pair<std::string, std::string>>;

/// Throws, in every process the same, an Error that names the fields in which processes differ,
/// with their values and whose they are. Of equal records little more than a number is sent.
/// `what`: `the start`, for who waits.
void check_alike(World& world, const StartRecord& own, const std::string& what);
/// The same over a communicator; `name_of`: a process's name by rank.
void check_alike(Communicator& talk, const std::function<std::string(int64_t)>& name_of,
                 const StartRecord& own, const std::string& what);

}  // namespace kinema::world
