#pragma once

#include <memory>
#include <stop_token>

#include "kinema/job/job.h"

namespace kinema::cli {

/// Shows a job's output on the console: notices as lines on stderr, tasks as bars or as a live
/// line. `with_lines`: the job's own lines go to stdout; false with `--json`.
void show_on_console(Observer& observer, bool with_lines);

/// Options of a job whose compiles run in child processes, as this program's `compile-job`.
JobOptions job_options(std::stop_token stop = {});

/// A job that only reports to the console, for commands that call parts of a job. `world`: the
/// processes that share the job; only the first one prints.
Job console_job(std::shared_ptr<world::World> world = {});

}  // namespace kinema::cli
