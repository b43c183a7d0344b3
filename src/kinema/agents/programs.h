#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kinema/agent_step/train_step.h"
#include "kinema/graph/emit.h"
#include "kinema/graph/graph.h"
#include "kinema/mesh/placement.h"
#include "kinema/models/dreamer/agent.h"

/// The two programs of an agent, as graphs.
namespace kinema::agents {

/// The sizes of a batch: `rows` sequences of `length` trained steps behind `context` others.
struct BatchSize {
  int64_t rows = 16;
  int64_t length = 64;
  int64_t context = 1;
};

/// A graph with names for its inputs and outputs.
struct AgentGraph {
  std::unique_ptr<Graph> graph;
  std::vector<Tensor> outputs;
  std::map<int64_t, int64_t> donate;  // input -> output in its buffer
  std::vector<Sharding> output_shardings = {};

  void set_emit(EmitOptions& options) const {
    options.donate = donate;
    options.output_shardings = output_shardings;
  }
};

/// The logical axes of a mesh's rules: of the rows of a batch, and of what devices share of a
/// parameter and its moments.
inline constexpr const char* kSequences = "sequences";
inline constexpr const char* kSharded = "sharded";

/// A parameter's sharding: along its longest axis that divides. Vectors are small, and whole.
Sharding parameter_sharding(const mesh::Placement& place, const Dims& dims);
/// The sharding of rows [rows, ...].
Sharding row_sharding(const mesh::Placement& place, const Dims& dims);

/// A step of training.
///
/// Inputs: the state (agent_step::AgentState), the recurrent state after the batch before (deter,
/// stoch), the run's key U32[2], the step's number U32, the learning rate F32, then the batch in
/// the order of `data`: [rows, context + length, ...].
/// Outputs: state and recurrent state in the old ones' buffers, metrics F32 [n], the latents of
/// trained steps (deter [rows, length, deter], classes [rows, length, stoch]), then copies of the
/// parameters that acting needs. Over a mesh (`options.model.place`) inputs and outputs have their
/// shardings; metrics and the copies are whole on each device.
struct TrainGraph : AgentGraph {
  size_t state = 0;  // arrays of the state
  std::map<std::string, Shape> data;
  std::vector<std::string> metrics;
};
TrainGraph train_graph(const dreamer::AgentConfig& config, const agent_step::StepOptions& options,
                       const BatchSize& size);

/// A step of acting in n environments.
///
/// Inputs: parameters (acting_parameters), what the agent remembers (deter, stoch, actions by
/// name), the run's key U32[2], the call's number U32, is_first U8 [n], then the observations by
/// name. Outputs: memory in the old one's buffers, then deter [n, deter] and classes [n, stoch] for
/// replay.
struct ActGraph : AgentGraph {
  std::vector<std::pair<std::string, Shape>> memory;
};
ActGraph act_graph(const dreamer::AgentConfig& config, const nn::ModelOptions& options, int64_t n);

/// The positions among dreamer::parameters of those that acting needs: encoder, recurrent model and
/// policy.
std::vector<size_t> acting_parameters(const std::vector<nn::ParamSpec>& specs);

/// What the world model predicts: the first half of a batch's steps is observed, the others are
/// imagined with the actions that were taken (dreamer::open_loop).
///
/// Inputs: the parameters that the graph reads (`parameters`, positions among dreamer::parameters),
/// the key U32[2], then the batch in the order of `data`. Outputs: the predicted pixels of the
/// first image, U8 [rows, length, rows, columns, c], and the video of dreamer::open_loop_video.
struct OpenLoopGraph : AgentGraph {
  std::string image;  // the observation that is predicted
  std::vector<size_t> parameters;
  std::map<std::string, Shape> data;
};
/// Throws an Error if no observation is an image.
OpenLoopGraph open_loop_graph(const dreamer::AgentConfig& config, const nn::ModelOptions& options,
                              const BatchSize& size);

/// Everything of a replayed step that training and predictions read, by name.
std::map<std::string, Shape> step_shapes(const dreamer::AgentConfig& config, DType activations);

/// How replay keeps a state of the agent: `dyn/deter` in the dtype of activations, and the classes
/// `dyn/stoch` of its variables, in a byte each if they fit.
std::map<std::string, Shape> latents(const dreamer::AgentConfig& config, DType activations);

}  // namespace kinema::agents
