#pragma once

#include <vector>

#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

namespace kinema::runtime {

/// Gives every device the part of an array that one device of those that hold it has read, where
/// the others hold zeros (Devices::reads).
class Spreader {
 public:
  explicit Spreader(Devices devices) : devices_(std::move(devices)) {}

  /// Called by all processes alike, as it runs a program over all devices: one for each shape and
  /// sharding. Changes nothing where the array is not copied along any axis.
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
