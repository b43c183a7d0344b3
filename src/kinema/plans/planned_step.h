#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kinema/graph/graph.h"
#include "kinema/job/job.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/mesh/placement.h"
#include "kinema/planning/target.h"
#include "kinema/plans/plan.h"
#include "kinema/resolve/settings.h"
#include "kinema/runtime/emit_for.h"
#include "kinema/training/experts.h"

namespace kinema::plans {

/// The program that a run with this configuration would compile, as a graph.
struct PlannedStep {
  std::shared_ptr<const void> owner;  // owns `graph`; shared, because two kinds of steps own one
  const Graph* graph = nullptr;
  std::vector<Tensor> outputs;
  kernels::Target target;
  runtime::ProgramOptions program;
  mesh::Placement place;
  std::string what;
  std::string model;
  std::string inputs;
  std::string layout;        // of the batch over the mesh; empty on one device
  training::IdleBytes idle;  // of the idle expert
  std::string remat = "none";
  double model_flops = 0;  // on all devices, by Architecture::forward_flops; 0: unknown

  /// The program's text and kernels, equal to those of a run on these devices.
  runtime::Emitted emitted() const { return emit_for(target, *graph, outputs, program); }
};

/// Builds the step for a target's devices. Throws the errors that a run would throw.
PlannedStep build_planned_step(const resolve::Settings& loaded, const planning::Target& target,
                               PlanMode mode, const Job& job);

}  // namespace kinema::plans
