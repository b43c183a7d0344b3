#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/program.h"

/// Devices that hold copies of a value must hold the same bits. Where they do not, a device, the
/// network or the compiler went wrong, and nothing else notices: sums over devices hide it.
namespace kinema::runtime {

/// Positions of the copies whose bits are not those of most; where as many say one thing as
/// another, the first copy is right. All NaNs of F32 are one. Empty when all are equal.
std::vector<size_t> odd_copies(std::span<const HostArray> copies);

/// An array's copy on a device, which is not what most devices hold.
struct OddCopy {
  size_t array = 0;   // position among the arrays compared
  size_t device = 0;  // position in the mesh's order
};

/// The copies of a small array that every device holds whole, one after the other in the devices'
/// order.
std::vector<HostArray> copies_of(const Array& array);

/// Compares arrays of any size by a sum of their bits that each device makes of what it holds.
/// Where several processes share the devices all call it alike, and find the same.
class ReplicaCheck {
 public:
  /// `ports` name and place the arrays. Compiles; does nothing for one device.
  ReplicaCheck(const Devices& devices, std::span<const Port> ports, ProgramOptions options);

  /// Those that differ, in the arrays' order.
  std::vector<OddCopy> find(std::span<const Array* const> arrays) const;

 private:
  std::vector<HostArray> sums(std::span<const Array* const> arrays) const;

  Devices devices_;
  std::vector<Sharding> shardings_;  // of the arrays
  std::vector<Program> program_;     // none for one device
};

/// `device 3 (data=1, fsdp=0)`; with its process where there are several.
std::string device_text(const Devices& devices, size_t position);

}  // namespace kinema::runtime
