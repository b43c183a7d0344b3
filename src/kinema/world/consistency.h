#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/world/world.h"

namespace kinema::world {

/// Values that must be equal in all processes of a run, by name: keys, the program, the plugin, the
/// data. If several differ, the first ones are reported.
using StartRecord = std::vector<std::pair<std::string, std::string>>;

/// Consistency check: throws the same Error in every process, with the fields that differ, their
/// values and the names of the processes. For equal records, little more than a hash is sent.
/// `what` is for errors while waiting: `the start`.
void check_consistent(World& world, const StartRecord& own, const std::string& what);
/// The same over a communicator; `name_of` returns a process's name by rank.
void check_consistent(Communicator& communicator,
                      const std::function<std::string(int64_t)>& name_of, const StartRecord& own,
                      const std::string& what);

}  // namespace kinema::world
