#pragma once

#include <memory>
#include <stop_token>

#include "kinema/job/job.h"

namespace kinema::cli {

/// Lets people see what a job tells: notices as lines on stderr, tasks as bars or as a line that
/// lives. `with_lines`: the job's own lines go to stdout, where `--json` has no place for them.
void show_on_console(Observer& observer, bool with_lines);

/// That a child compiles is this program's `compile-job`.
JobOptions job_options(std::stop_token stop = {});

/// A job whose only observer is the console: for commands that call parts of what a job does.
/// `world`: the processes that do it together, of which the first alone tells.
Job console_job(std::shared_ptr<world::World> world = {});

}  // namespace kinema::cli
