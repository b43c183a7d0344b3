#pragma once

#include <memory>
#include <span>
#include <string>

#include "kinema/config/config.h"
#include "kinema/world/world.h"

/// The processes that a launcher started as one run.
namespace kinema::cli {

/// Connects this process to the others of its launcher at the first call, before the command's
/// arguments are parsed, so that errors in them are reported once. Throws an Error if the processes
/// run different commands. Of the arguments only `coordinator_address`, `process_id` and
/// `num_processes` are used. All processes but 0 then print no lines on stdout and no log lines for
/// the user.
std::shared_ptr<world::World> joined_world(const std::string& command,
                                           std::span<const std::string> words);
/// The same for a configuration: on TPUs it finds the hosts without a launcher. Throws an Error if
/// its keys contradict the launcher.
std::shared_ptr<world::World> joined_world(const config::Config& config);

/// Prints a log line for the user. Only the first process prints, and names the process if only
/// others have the line.
void warn_with_ranks(const std::string& text);

/// Prints the log lines of other processes that were not shown yet.
void show_last_notices();

/// Ends this process as the signal does by default. Other processes are notified first, so that
/// they do not wait for it.
[[noreturn]] void end_all_by(int signal);

/// Prints an error and returns the exit status; with several processes only the first prints it.
/// With `json` it is also printed on stdout, as `{"error": "..."}`.
int fail_with(const std::string& error, bool json = false);

}  // namespace kinema::cli
