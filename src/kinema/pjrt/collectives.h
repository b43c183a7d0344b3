#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/pjrt/executable.h"

namespace kinema::pjrt {

/// An instruction of an optimized program that communicates between devices.
struct Collective {
  std::string kind;  ///< `all-reduce`, `all-gather`, ...; without the suffix of asynchronous halves
  std::string shape;  ///< of the result, per device: `f32[2,4]`
  int64_t bytes = 0;  ///< of the result, per device
  /// Executions per execution of the program, if the trip counts of its loops are known.
  int64_t times = 1;
  std::string origin;  ///< the path in the model: `blocks/attn1/to_q/dot_general`; may be empty
  /// The partitions of one group: its members, or the two ends of one hop.
  std::vector<int64_t> group = {};
};

/// Every collective of a program, in the order of its computations. Empty if the plugin returns the
/// program in an unsupported format. Throws an Error for bytes that are not an HLO module.
std::vector<Collective> collectives(const OptimizedProgram& program);

}  // namespace kinema::pjrt
