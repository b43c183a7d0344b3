#pragma once

#include <string>
#include <vector>

#include "kinema/job/job.h"
#include "kinema/resolve/settings.h"

namespace kinema::jobs {

/// What of a machine decides whether jobs can run: a name and a text each, in order; a line without
/// a name goes on with the one before.
struct Diagnosis {
  struct Line {
    std::string name;
    std::string text;
  };
  std::vector<Line> lines;
  std::string problem;  ///< why no job can run with this configuration; empty: none
  std::string warning;  ///< what jobs run without, in one or two lines; empty: nothing
};

/// Looks for the plugin of the configuration's hardware and opens it; the plugins of others, and
/// what they load, are looked for only. All processes of a job call it, and open their devices
/// together; where one has no plugin, that is the problem in all, `[process 3 on HOST] text`, and
/// throws an Error where they cannot be opened together.
Diagnosis diagnose(const resolve::Settings& config, const Job& job = {});

}  // namespace kinema::jobs
