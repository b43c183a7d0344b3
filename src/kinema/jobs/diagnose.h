#pragma once

#include <string>
#include <vector>

#include "kinema/job/job.h"
#include "kinema/resolve/settings.h"

namespace kinema::jobs {

/// The properties of a machine that decide whether jobs can run: a name and a text each, in order;
/// a line without a name continues the previous one.
struct Diagnosis {
  struct Line {
    std::string name;
    std::string text;
  };
  std::vector<Line> lines;
  std::string problem;  ///< the reason why no job can run with this configuration; empty: none
  std::string warning;  ///< what jobs lack, in one or two lines; empty: nothing
};

/// Finds the plugin of the configuration's hardware and opens it; other plugins and their libraries
/// are only found. Collective: the processes open their devices together. If one has no plugin,
/// that is the problem in all, `[process 3 on HOST] text`. Throws an Error if the devices cannot be
/// opened together.
Diagnosis diagnose(const resolve::Settings& config, const Job& job = {});

}  // namespace kinema::jobs
