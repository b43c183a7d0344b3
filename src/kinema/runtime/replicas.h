#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

/// Replicas of a value on several devices must be bit-identical. If they are not, a device, the
/// network or the compiler is faulty, which no other check detects: sums over devices hide it.
namespace kinema::runtime {

/// Positions of the copies whose bits differ from the majority's; in a tie, the first copy is
/// right. All NaNs of F32 are equal. Empty if all are equal.
std::vector<size_t> mismatched_replicas(std::span<const HostArray> copies);

/// A device's copy of an array that differs from the majority's.
struct MismatchedReplica {
  size_t array = 0;   // index among the compared arrays
  size_t device = 0;  // position in the mesh's order
};

/// The copies of a small replicated array, in the order of the devices.
std::vector<HostArray> replica_values(const Array& array);

/// Compares arrays of any size by a sum of bits that each device computes over its part.
/// Collective: if several processes share the devices, all call it and get the same result.
class ReplicaCheck {
 public:
  /// `ports` have names and shardings of the arrays. Compiles; does nothing for one device.
  ReplicaCheck(const Devices& devices, std::span<const Port> ports, ProgramOptions options);

  /// The differing copies, in the arrays' order.
  std::vector<MismatchedReplica> find(std::span<const Array* const> arrays) const;

 private:
  std::vector<HostArray> sums(std::span<const Array* const> arrays) const;

  Devices devices_;
  std::vector<Sharding> shardings_;  // of the arrays
  std::vector<Program> program_;     // empty for one device
};

/// `device 3 (data=1, fsdp=0)`; with its process if there are several.
std::string device_text(const Devices& devices, size_t position);

}  // namespace kinema::runtime
