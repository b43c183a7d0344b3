#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kinema/pjrt/hlo_program.h"
#include "kinema/planning/program_walk.h"

namespace kinema::planning {

/// Collectives of one kind on a device during one execution of the program.
struct CollectiveSum {
  double count = 0;
  double bytes = 0;               // operand bytes (all-gather: result) of one device
  double interconnect_bytes = 0;  // bytes that leave a device, for ring algorithms
  bool operator==(const CollectiveSum&) const = default;
};

/// The bytes that one device moves during one execution of the program; a loop's body counts once
/// per iteration.
struct Traffic {
  std::map<std::string, CollectiveSum> collectives;  // by kind: "all-gather", "all-to-all", ...
  double hbm_bytes = 0;   // between device memory and the cores, as far as the program shows
  double host_bytes = 0;  // between device memory and host memory, both ways
  double host_reads = 0;  // the part from host memory
  /// Loops with an unknown trip count; their bodies count once.
  int64_t unknown_loops = 0;
};

Traffic traffic(const pjrt::HloModule& program);

/// One collective, as a summand.
CollectiveSum collective(const Place& at);

/// True for instructions that a device launches: a fusion, a library's call, a copy, a collective;
/// not for those inside a fusion, aliases, or instructions that call others.
bool is_launched(const Place& at);

/// Bytes between device memory and the cores for one execution of an instruction.
double hbm_bytes(const pjrt::HloModule& program, const Place& at);

/// The host memory traffic of one execution of an instruction.
struct HostMove {
  double bytes = 0;
  bool reads = false;  // from the host
};
HostMove host_move(const pjrt::HloModule& program, const Place& at);

}  // namespace kinema::planning
