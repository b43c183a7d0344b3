#pragma once

#include <vector>

#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

namespace kinema::runtime {

/// Copies the part of an array that one device has read to all devices with the same part, which
/// hold zeros (Devices::reads).
class Resharder {
 public:
  explicit Resharder(Devices devices) : devices_(std::move(devices)) {}

  /// Collective: runs a program over all devices, compiled once per shape and sharding. Does
  /// nothing if the array is not replicated along any axis.
  Array operator()(Array array, const Sharding& sharding);

 private:
  struct Compiled {
    Shape shape;
    Sharding sharding;
    Program program;
  };
  const Program& program_for(const Shape& shape, const Sharding& sharding);

  Devices devices_;
  std::vector<Compiled> programs_;
};

}  // namespace kinema::runtime
