#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kinema/pjrt/hlo_program.h"
#include "kinema/planning/program_walk.h"

namespace kinema::planning {

/// Collectives of one kind that a device takes part in while the program runs once.
struct CollectiveSum {
  double count = 0;
  double bytes = 0;               // handed to them (all-gather: received), by one device
  double interconnect_bytes = 0;  // that leave a device, were each done around a ring
  bool operator==(const CollectiveSum&) const = default;
};

/// What one device moves while the program runs once; a loop's body counts as often as it runs.
struct Traffic {
  std::map<std::string, CollectiveSum> collectives;  // by kind: "all-gather", "all-to-all", ...
  double hbm_bytes = 0;   // between device memory and the cores, as far as the program's text says
  double host_bytes = 0;  // between device memory and host memory, both ways
  double host_reads = 0;  // of these, from host memory
  /// Loops whose number of steps could not be read; their bodies count once.
  int64_t unknown_loops = 0;
};

Traffic traffic(const pjrt::HloModule& program);

/// One collective, as a part of that sum.
CollectiveSum collective(const Place& at);

/// True for what a device begins by itself: a fusion, a library's call, a copy, a collective; not
/// for what is inside of a fusion, and what only names values or runs other instructions.
bool is_launched(const Place& at);

/// Bytes that one instruction moves between device memory and the cores, once.
double hbm_bytes(const pjrt::HloModule& program, const Place& at);

/// What one instruction moves from or to memory of the host, once.
struct HostMove {
  double bytes = 0;
  bool reads = false;  // from the host
};
HostMove host_move(const pjrt::HloModule& program, const Place& at);

}  // namespace kinema::planning
