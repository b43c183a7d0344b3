#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinema/agents/learner.h"
#include "kinema/environments/environment.h"

namespace kinema::agents {

/// An agent that acts in n environments, one call for all of them: what it remembers of each is on
/// the device.
class Actor {
 public:
  Actor(const pjrt::Client& client, const dreamer::AgentConfig& config,
        const nn::ModelOptions& options, int64_t n, uint64_t seed,
        const runtime::ProgramOptions& program);

  void set(ActingParameters parameters);

  struct Acted {
    environments::Arrays actions;  // by name, [n, ...]
    environments::Arrays latents;  // as replay keeps them, [n, ...]
  };
  /// Actions for observations [n, ...] by name. Where `is_first` is not 0, what was remembered is
  /// forgotten. `number`: of this call among all of the run, which decides the random numbers.
  Acted act(const environments::Arrays& observations, std::span<const uint8_t> is_first,
            int64_t number);

  /// What is remembered, by name.
  environments::Arrays memory() const;
  void restore(const environments::Arrays& memory);

 private:
  pjrt::Client client_;
  ActGraph graph_;
  std::unique_ptr<runtime::Program> program_;
  dreamer::AgentConfig config_;
  int64_t n_;
  uint64_t seed_;
  ActingParameters parameters_;
  std::vector<const pjrt::Buffer*> here_;  // the same on this device
  std::vector<pjrt::Buffer> copies_;       // of those that are on others
  std::vector<pjrt::Buffer> memory_;
};

}  // namespace kinema::agents
