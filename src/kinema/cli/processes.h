#pragma once

#include <memory>
#include <span>
#include <string>

#include "kinema/config/config.h"
#include "kinema/world/world.h"

/// The processes that a launcher started as one run.
namespace kinema::cli {

/// The group of processes that a launcher says this one belongs to. The first call connects them,
/// before the command's words are parsed, so that errors in the words are reported once; it fails
/// if they run different commands. Of the words only `coordinator_address=HOST:PORT` matters. All
/// processes but 0 then print no lines on stdout and no notices.
std::shared_ptr<world::World> joined_world(const std::string& command,
                                           std::span<const std::string> words);
/// The same for a configuration: on TPUs it finds its hosts without a launcher. Throws an Error if
/// its keys contradict the launcher.
std::shared_ptr<world::World> joined_world(const config::Config& config);

/// Prints a notice. Of several processes only the first prints, and names the process if only
/// others have the notice.
void warn_of_all(const std::string& text);

/// Prints the notices of other processes that were not shown yet.
void show_last_notices();

/// Ends this process as the signal does by default. Other processes are told first, so that they do
/// not wait for it.
[[noreturn]] void end_all_by(int signal);

/// Prints an error and returns the exit status; of several processes only the first prints it. With
/// `json` it also goes to stdout, as `{"error": "..."}`.
int fail_with(const std::string& error, bool json = false);

}  // namespace kinema::cli
