#pragma once

#include <map>
#include <string>

#include "kinema/io/json.h"
#include "kinema/pjrt/hlo_program.h"
#include "kinema/planning/chip.h"

namespace kinema::planning {

/// Collectives of one kind on a device during one execution of the program, by what its cores do
/// meanwhile. Bytes are those of CollectiveSum (traffic.h).
struct CollectiveOverlap {
  struct Part {
    double count = 0;
    double bytes = 0;
    bool operator==(const Part&) const = default;
  };
  Part attention;  // overlapped with an attention kernel
  Part other;      // overlapped with other arithmetic only
  Part exposed;    // not overlapped: awaited where they start
  bool operator==(const CollectiveOverlap&) const = default;
};

/// By kind: "all-gather", "all-to-all", ...
using Overlap = std::map<std::string, CollectiveOverlap>;

/// From the compiler's order of an optimized program's instructions; a loop's body counts once per
/// iteration.
Overlap overlap(const pjrt::HloModule& program, const Chip& chip);

io::Json to_json(const Overlap& overlap);
Overlap read_overlap(const io::Json& json);

}  // namespace kinema::planning
