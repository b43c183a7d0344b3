#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kinema/nn/params.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

namespace kinema::training {

/// The parameters of a state, or their average, as the network works on them: what sampling from a
/// run takes.
class WorkingWeights {
 public:
  /// `specs` are the network's, in its dtypes.
  WorkingWeights(runtime::Devices devices, std::vector<nn::ParamSpec> specs,
                 runtime::ProgramOptions how);

  /// One array a parameter, rounded to nearest even as a checkpoint's are when it is loaded. Those
  /// that are kept in the network's dtype are `kept` themselves; of the others there is a copy
  /// until `clear`, or the next call.
  std::vector<const runtime::Array*> of(std::span<const runtime::Array* const> kept);
  void clear() { copies_.clear(); }

 private:
  runtime::Devices devices_;
  std::vector<nn::ParamSpec> specs_;
  runtime::ProgramOptions how_;
  std::optional<runtime::Program> program_;
  std::vector<std::pair<DType, Memory>> from_;  // of the arrays that the program takes
  std::vector<runtime::Array> copies_;
};

}  // namespace kinema::training
