#pragma once

#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

namespace kinema::runtime {

/// Reads whole arrays of which other processes hold parts.
class WholeReader {
 public:
  explicit WholeReader(Devices devices) : devices_(std::move(devices)) {}

  /// All of an array that lies as `sharding` says, where `wanted`; else an empty one. Called by all
  /// processes alike, as it takes a program over all devices (compiled once for each shape and
  /// sharding) where parts are elsewhere; nothing but a copy where they are not.
  HostArray read(const Array& array, const Sharding& sharding, bool wanted = true);
  /// The same of each entry of the first axis, which is not split, without that axis; those that
  /// are not `wanted` are empty. Layer by layer what others hold takes no more room than one.
  std::vector<HostArray> read_layers(const Array& array, const Sharding& sharding,
                                     const std::vector<bool>& wanted);

 private:
  struct Gather {
    Shape shape;
    Sharding sharding;
    bool layers;
    Program program;
  };
  const Program& gather(const Shape& shape, const Sharding& sharding, bool layers);

  Devices devices_;
  std::vector<Gather> gathers_;
};

}  // namespace kinema::runtime
