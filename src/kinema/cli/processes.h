#pragma once

#include <memory>
#include <span>
#include <string>

#include "kinema/config/config.h"
#include "kinema/world/world.h"

/// The processes that a launcher started as one run.
namespace kinema::cli {

/// Those that a launcher says this one belongs to, met when it is first asked for: before the words
/// of the command are read, so that what is wrong with them is said once: that of several run
/// another `command`, to begin with. Of the words only where to meet counts
/// (`coordinator_address=HOST:PORT`). All but process 0 then print no more on stdout, nor notices.
std::shared_ptr<world::World> joined_world(const std::string& command,
                                           std::span<const std::string> words);
/// The same for a configuration: one of TPUs knows its hosts without a launcher. Throws an Error
/// where its keys contradict the launcher.
std::shared_ptr<world::World> joined_world(const config::Config& config);

/// A notice, which of several processes the first shows, with whose it is where others alone have
/// it.
void warn_of_all(const std::string& text);

/// What other processes have to say and was not shown yet.
void show_last_notices();

/// Ends this process as the signal does by default; of several, the others are told first, so that
/// they do not wait for it.
[[noreturn]] void end_all_by(int signal);

/// Prints an error, of several processes once, by the first; the exit status. With `json` what
/// reads the standard output has it too, as `{"error": "..."}`.
int fail_with(const std::string& error, bool json = false);

}  // namespace kinema::cli
