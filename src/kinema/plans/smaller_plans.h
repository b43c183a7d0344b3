#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kinema/planning/minimum_memory.h"
#include "kinema/planning/report.h"
#include "kinema/plans/plan.h"
#include "kinema/plans/planned_step.h"
#include "kinema/resolve/settings.h"

/// Finds the nearest configuration that fits if a plan does not.
namespace kinema::plans {

/// A lower bound of a planned step's memory per device.
planning::MinimumMemory minimum_memory(const PlannedStep& step);

/// Adds tried and untried changes to the `report` of a step that does not fit; those that do not
/// change loss or picture come first. `plan` compiles a configuration; if it is empty, none is
/// compiled.
void find_smaller_plan(const resolve::Settings& loaded, const PlanOptions& options,
                       const PlannedStep& step, const Job& job,
                       const std::function<planning::Report(const resolve::Settings&)>& plan,
                       planning::Report& report);

}  // namespace kinema::plans
