#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/jobs/plan.h"
#include "kinema/jobs/planned_step.h"
#include "kinema/planning/least_memory.h"
#include "kinema/planning/report.h"
#include "kinema/resolve/settings.h"

/// Where a plan does not fit: the nearest configuration that does.
namespace kinema::jobs {

/// What a planned step holds of each device at least.
planning::LeastMemory least_memory(const PlannedStep& step);

/// Fills `report`, of a step that does not fit, with what was tried and what was not: changes that
/// are not made already, those that change no loss and no picture first. `plan` compiles a
/// configuration; none of them is where it is empty.
void find_smaller_plan(const resolve::Settings& loaded, const PlanOptions& options,
                       const PlannedStep& step, const Job& job,
                       const std::function<planning::Report(const resolve::Settings&)>& plan,
                       planning::Report& report);

}  // namespace kinema::jobs
