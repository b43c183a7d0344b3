#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/pjrt/executable.h"

namespace kinema::pjrt {

/// One instruction of an optimized program that moves data between devices.
struct Collective {
  std::string kind;  ///< `all-reduce`, `all-gather`, ...; without the suffix of asynchronous halves
  std::string shape;  ///< of the result, per device: `f32[2,4]`
  int64_t bytes = 0;  ///< of the result, per device
  int64_t times = 1;  ///< runs per run of the program, where the trip counts of its loops are known
  std::string origin;  ///< where in the model: `blocks/attn1/to_q/dot_general`; may be empty
  /// Partitions that talk to each other, of one group: its members, or the two ends of one hop.
  std::vector<int64_t> group = {};
};

/// Every collective of a program, in the order of its computations. Empty when the plugin hands the
/// program out in a form that is not read. Throws an Error for bytes that are no HLO module.
std::vector<Collective> collectives(const OptimizedProgram& program);

}  // namespace kinema::pjrt
