#pragma once

#include "kinema/runtime/full_array_reader.h"
#include "kinema/training/checkpoint.h"

namespace kinema::training {

/// Reads states whose arrays are on the devices of several processes, for checkpoints that these
/// write together.
class SharedState {
 public:
  /// `process` of `processes`.
  SharedState(const runtime::Devices& devices, int64_t process, int64_t processes)
      : reader_(devices), devices_(devices), process_(process), processes_(processes) {}

  /// A copy in host memory, in which each layer is a separate array that belongs to one process:
  /// each process has about the same number of bytes, in the order of the network. Collective: all
  /// processes call it.
  StateSource copy(const StateView& state, const Held& held);

 private:
  std::vector<StateSource::Kept> copy(std::span<const nn::ParamSpec> specs,
                                      std::span<const runtime::Array* const> arrays,
                                      std::vector<int64_t> owners);
  std::vector<int64_t> owners(std::span<const nn::ParamSpec> specs) const;

  runtime::FullArrayReader reader_;
  runtime::Devices devices_;
  int64_t process_;
  int64_t processes_;
};

}  // namespace kinema::training
