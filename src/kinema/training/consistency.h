#pragma once

#include <span>
#include <string>

#include "kinema/runtime/replicas.h"

namespace kinema::training {

/// Values that must be equal on all devices after a step.
struct ConsistencyCheck {
  const runtime::Devices& devices;
  /// The step's F32 [4] (StepGraph::Metric) and sums of squares F32 [n]; empty before a step. Also
  /// empty if several processes share the devices: then `state` contains them.
  const runtime::Array& metrics;
  const runtime::Array& squares;
  /// The parameter of each sum of squares.
  std::span<const std::string> gradient_names;
  const runtime::ReplicaCheck& check;
  std::vector<const runtime::Array*> state;
  /// Names of the state's arrays.
  std::span<const runtime::Port> ports;
};

/// Throws an Error with the devices whose bits differ from those of most devices: in the loss and
/// gradient norm, else in a gradient's size, else in a part of the state.
void check_consistency(const ConsistencyCheck& of);

}  // namespace kinema::training
