#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kinema/agents/programs.h"
#include "kinema/core/stopwatch.h"
#include "kinema/optimizers/laprop.h"
#include "kinema/pjrt/client.h"
#include "kinema/replay/chunk.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

namespace kinema::agents {

/// Parameters in the order of acting_parameters, whole on each device that trains. Actors share
/// them.
using ActingParameters = std::shared_ptr<const std::vector<runtime::Array>>;

struct LearnerOptions {
  BatchSize batch;
  agent_step::StepOptions step;
  optimizers::AnnealedRate rate;
  uint64_t seed = 0;
};

/// The options with the shardings of a mesh; unchanged for one device.
LearnerOptions over(const mesh::Placement& place, const dreamer::AgentConfig& config,
                    LearnerOptions options);

/// An agent that is trained: its state on the device, and the program that changes it.
class Learner {
 public:
  /// Compiles, and draws the parameters from the seed. The options' placement becomes that of the
  /// devices.
  Learner(const runtime::Devices& devices, const dreamer::AgentConfig& config,
          const LearnerOptions& options, const runtime::ProgramOptions& program);

  struct Result {
    std::vector<std::pair<std::string, double>> metrics;  // with the original's names
    replay::Arrays latents;                               // of the trained steps
    HostArray stepid;                                     // of the trained steps
    double seconds = 0;
  };
  /// Starts a step of training on another thread. `batch` is a sample of replay, [rows, context +
  /// length, ...], with `stepid` and `consec`.
  void begin(replay::Arrays batch);
  bool is_busy() const { return running_.valid(); }
  /// Waits for it. Throws what it threw.
  Result end();

  /// Steps of training that ended.
  int64_t updates() const { return updates_; }
  int64_t parameter_count() const { return parameter_count_; }
  /// Those after the last step that ended.
  const ActingParameters& acting() const { return acting_; }
  /// The parameter at a position among dreamer::parameters, between end and begin.
  const runtime::Array& parameter(size_t i) const { return state_.at(i); }
  const runtime::ProgramReport& report() const { return program_->report(); }

  /// Writes the state, with names as in the original's checkpoints; `restore` reads it. Neither may
  /// be called between begin and end. Throws an Error for a file of another agent.
  void save(const std::filesystem::path& file) const;
  void restore(const std::filesystem::path& file);

 private:
  Result run(const replay::Arrays& batch);
  void upload(const agent_step::AgentState<HostArray>& state);

  runtime::Devices devices_;
  dreamer::AgentConfig config_;
  LearnerOptions options_;
  TrainGraph graph_;
  std::unique_ptr<runtime::Program> program_;
  agent_step::AgentState<nn::ParamSpec> specs_;
  std::vector<runtime::Array> state_;  // in the order of the program, with the carried state
  ActingParameters acting_;
  ActingParameters next_acting_;
  int64_t updates_ = 0;
  int64_t parameter_count_ = 0;
  std::future<Result> running_;
};

/// The parameters of a new agent.
agent_step::AgentState<HostArray> initial_state(const dreamer::AgentConfig& config, uint64_t seed);

/// Reads parameters of a file that Learner::save wrote, by their positions among
/// dreamer::parameters.
std::vector<pjrt::Buffer> read_parameters(const pjrt::Client& client,
                                          const dreamer::AgentConfig& config,
                                          const std::filesystem::path& file,
                                          std::span<const size_t> positions);
/// The same for what acting needs.
ActingParameters read_acting_parameters(const pjrt::Client& client,
                                        const dreamer::AgentConfig& config,
                                        const std::filesystem::path& file);

}  // namespace kinema::agents
