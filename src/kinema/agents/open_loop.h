#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "kinema/agents/driver.h"
#include "kinema/agents/programs.h"
#include "kinema/pjrt/client.h"
#include "kinema/replay/chunk.h"
#include "kinema/runtime/program.h"

namespace kinema::agents {

/// A compiled program that predicts images: the first half of some steps is observed, the other
/// half imagined with the actions that were taken.
class OpenLoop {
 public:
  /// Compiles for batches of this size. Throws an Error if no observation is an image.
  OpenLoop(const pjrt::Client& client, const dreamer::AgentConfig& config,
           const nn::ModelOptions& options, const BatchSize& size,
           const runtime::ProgramOptions& program);

  struct Result {
    HostArray truth;       // u8 [n, length, rows, columns, c]
    HostArray prediction;  // the same
    HostArray video;       // u8 [length + rest, rows, columns, c], as dreamer::open_loop_video
  };
  /// `parameter(i)`: the parameter at this position among dreamer::parameters. `batch` is a sample
  /// of replay; further rows than this program's are not looked at.
  Result operator()(const std::function<const pjrt::Buffer&(size_t)>& parameter,
                    const replay::Arrays& batch) const;
  /// The positions of the parameters that it asks for.
  const std::vector<size_t>& parameters() const { return graph_.parameters; }

 private:
  pjrt::Client client_;
  OpenLoopGraph graph_;
  BatchSize size_;
  std::unique_ptr<runtime::Program> program_;
};

/// The steps of an episode from its first on as a batch of one row, behind a step of context that
/// an episode's beginning makes meaningless.
class EpisodeBatch {
 public:
  EpisodeBatch(const dreamer::AgentConfig& config, DType activations);
  /// Adds a step of environment `row`.
  void add(const Transition& now, int64_t row);
  /// Steps so far.
  int64_t length() const { return length_; }
  replay::Arrays batch() const;

 private:
  std::map<std::string, Shape> shapes_;  // of a step
  std::map<std::string, std::vector<std::byte>> values_;
  int64_t length_ = 0;
};

}  // namespace kinema::agents
