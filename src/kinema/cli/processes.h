#pragma once

#include <memory>
#include <span>
#include <string>

#include "kinema/config/config.h"
#include "kinema/world/world.h"

/// The processes that a launcher started as one run.
namespace kinema::cli {

/// Those that a launcher says this one belongs to, met when it is first asked for: before the words
/// of the command are read, so that what is wrong with them is said once. Of them only where to
/// meet counts (`coordinator_address=HOST:PORT`). All but process 0 then print no more on stdout,
/// nor notices.
std::shared_ptr<world::World> joined_world(std::span<const std::string> words);
/// The same for a configuration: one of TPUs knows its hosts without a launcher. Throws an Error
/// where its keys contradict the launcher.
std::shared_ptr<world::World> joined_world(const config::Config& config);

/// Prints an error, of several processes once, by the first; the exit status.
int fail_with(const std::string& error);

}  // namespace kinema::cli
