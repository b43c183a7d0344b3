#pragma once

#include "kinema/runtime/whole_reader.h"
#include "kinema/training/checkpoint.h"

namespace kinema::training {

/// Reads states whose arrays lie on the devices of several processes, for checkpoints that these
/// write together.
class SharedState {
 public:
  /// `process` of `processes`.
  SharedState(const runtime::Devices& devices, int64_t process, int64_t processes)
      : reader_(devices), devices_(devices), process_(process), processes_(processes) {}

  /// A copy in host memory, in which each layer is an array of its own and belongs to one process:
  /// each has its share of the bytes, in the order of the network. Called by all alike.
  StateSource copy(const StateView& state, const Held& held);

 private:
  std::vector<StateSource::Kept> copy(std::span<const nn::ParamSpec> specs,
                                      std::span<const runtime::Array* const> arrays,
                                      std::vector<int64_t> owners);
  std::vector<int64_t> owners(std::span<const nn::ParamSpec> specs) const;

  runtime::WholeReader reader_;
  runtime::Devices devices_;
  int64_t process_;
  int64_t processes_;
};

}  // namespace kinema::training
