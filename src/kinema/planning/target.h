#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/pjrt/value.h"
#include "kinema/planning/chip.h"

namespace kinema::planning {

/// Devices to compile for.
struct Target {
  std::string name;  // as given: "v6e:4x4", "h100:8", "cpu:4"
  Chip chip;
  int64_t devices = 1;

  /// As its plugin calls itself: cpu, cuda or tpu.
  std::string platform() const;

  /// TPU: where the device of this id stands in the network's grid, core of the chip first, then x,
  /// y, z, as its compiler numbers them; empty for others.
  std::vector<int64_t> grid_place(int64_t id) const;

  /// Name and options of the plugin's topology; neither for CPU.
  std::string topology_name() const;
  pjrt::NamedValues topology_options() const;
  /// Environment variables that the plugin wants.
  std::vector<std::pair<std::string, std::string>> environment() const;
};

/// The chip of `CHIP`, `CHIP:GRID` or `CHIP:COUNT`, whatever follows the colon. Throws an Error
/// that names the chips there are.
const Chip& chip_of_target(const std::string& text);

/// Reads `CHIP:GRID` (`v5p:2x2x1`) or `CHIP:COUNT` (`h100:8`, `cpu:4`; without a count 1). Throws
/// an Error that names the chips there are, or the form that the chip wants.
Target parse_target(const std::string& text);

}  // namespace kinema::planning
