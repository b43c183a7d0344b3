#pragma once

#include <span>
#include <string>

#include "kinema/runtime/replicas.h"

namespace kinema::training {

/// What devices must agree on after a step.
struct Agreement {
  const runtime::Devices& devices;
  /// The step's F32 [4] (StepGraph::Metric) and sums of squares F32 [n]; empty before a step, and
  /// where several processes share the devices, of which `state` then has these too.
  const runtime::Array& metrics;
  const runtime::Array& squares;
  /// The parameter behind each sum.
  std::span<const std::string> gradient_names;
  const runtime::ReplicaCheck& check;
  std::vector<const runtime::Array*> state;
  /// Names the state's arrays.
  std::span<const runtime::Port> ports;
};

/// Throws an Error that names the devices whose copy of the loss and gradient norm, else of a
/// gradient's size, else of a part of the state has not the bits that most devices have.
void check_agreement(const Agreement& of);

}  // namespace kinema::training
