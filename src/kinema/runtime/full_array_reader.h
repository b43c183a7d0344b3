#pragma once

#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

namespace kinema::runtime {

/// Reads complete arrays of which other processes hold parts.
class FullArrayReader {
 public:
  explicit FullArrayReader(Devices devices) : devices_(std::move(devices)) {}

  /// The complete array with this sharding if `wanted`; else an empty one. Collective if other
  /// processes hold parts: then it runs a program over all devices, compiled once per shape and
  /// sharding; otherwise it is a copy.
  HostArray read(const Array& array, const Sharding& sharding, bool wanted = true);
  /// The same for each entry of the unsharded first axis, without that axis; entries that are not
  /// `wanted` are empty. Reading layer by layer needs memory for one layer only.
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
