#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kinema/nn/params.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

namespace kinema::training {

/// The parameters of a state, or their average, in the dtypes of computation, for sampling during a
/// run.
class ComputeWeights {
 public:
  /// `specs` are the network's, in its dtypes.
  ComputeWeights(runtime::Devices devices, std::vector<nn::ParamSpec> specs,
                 runtime::ProgramOptions how);

  /// One array per parameter, rounded to nearest even as when a checkpoint is loaded. Parameters
  /// that are stored in the network's dtype are those of `kept`; the others are copies that are
  /// valid until `clear`, or the next call.
  std::vector<const runtime::Array*> of(std::span<const runtime::Array* const> kept);
  void clear() { copies_.clear(); }

 private:
  runtime::Devices devices_;
  std::vector<nn::ParamSpec> specs_;
  runtime::ProgramOptions how_;
  std::optional<runtime::Program> program_;
  std::vector<std::pair<DType, Memory>> from_;  // of the program's arguments
  std::vector<runtime::Array> copies_;
};

}  // namespace kinema::training
