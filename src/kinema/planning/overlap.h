#pragma once

#include <map>
#include <string>

#include "kinema/io/json.h"
#include "kinema/pjrt/hlo_program.h"
#include "kinema/planning/chip.h"

namespace kinema::planning {

/// Collectives of one kind that a device takes part in while the program runs once, by what its
/// cores do while they are under way. Bytes are those of CollectiveSum (traffic.h).
struct CollectiveOverlap {
  struct Part {
    double count = 0;
    double bytes = 0;
    bool operator==(const Part&) const = default;
  };
  Part attention;  // begun before a kernel of attention, waited for after it
  Part other;      // the same with other arithmetic only
  Part exposed;    // waited for where they are begun: nothing runs beside them
  bool operator==(const CollectiveOverlap&) const = default;
};

/// By kind: "all-gather", "all-to-all", ...
using Overlap = std::map<std::string, CollectiveOverlap>;

/// From the order in which the compiler has an optimized program's instructions run; a loop's body
/// counts as often as it runs.
Overlap overlap(const pjrt::HloModule& program, const Chip& chip);

io::Json to_json(const Overlap& overlap);
Overlap read_overlap(const io::Json& json);

}  // namespace kinema::planning
