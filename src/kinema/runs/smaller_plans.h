#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/planning/least_memory.h"
#include "kinema/planning/report.h"
#include "kinema/runs/plan.h"
#include "kinema/runs/planned_step.h"

/// Where a plan does not fit: the nearest configuration that does.
namespace kinema::runs {

/// What a planned step holds of each device at least.
planning::LeastMemory least_memory(const PlannedStep& step);

/// Fills `report`, of a step that does not fit, with what was tried and what was not: changes that
/// are not made already, those that change no loss and no picture first. `plan` compiles a
/// configuration; none of them is where it is empty.
void find_smaller_plan(const config::Loaded& loaded, const PlanOptions& options,
                       const PlannedStep& step, const Job& job,
                       const std::function<planning::Report(const config::Loaded&)>& plan,
                       planning::Report& report);

}  // namespace kinema::runs
