#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kinema/config/config.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/kernels/kernel_set.h"
#include "kinema/mesh/placement.h"
#include "kinema/models/wan/config.h"
#include "kinema/planning/target.h"
#include "kinema/runs/job.h"
#include "kinema/runs/plan.h"

namespace kinema::runs {

/// The program that a run with this configuration would compile, as a graph.
struct PlannedStep {
  std::shared_ptr<const void> owner;  // keeps `graph`; shared: two kinds of steps own one
  const Graph* graph = nullptr;
  std::vector<Tensor> outputs;
  EmitOptions emit;  // with the kernels' lowering
  kernels::KernelSet kernels;
  mesh::Placement place;
  std::string what;
  std::string model;
  std::string inputs;
  std::string layout;      // of the batch over the mesh; empty on one device
  double model_flops = 0;  // on all devices, by the formula of training/flops.h; 0: none
};

/// The transformer's sizes without its weights: the folder's, where the named model is here; those
/// known of official models by their name, keys given beside it on top; else the configuration's.
wan::TransformerConfig planned_model(const config::Loaded& loaded);

/// Builds the step for a target's devices. Throws an Error where a run would.
PlannedStep build_planned_step(const config::Loaded& loaded, const planning::Target& target,
                               PlanMode mode, const Job& job);

}  // namespace kinema::runs
