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

  /// The plugin's platform name: cpu, cuda or tpu.
  std::string platform() const;

  /// TPU: the position of the device with this id in the network's grid, as numbered by its
  /// compiler: core of the chip first, then x, y, z; empty for others.
  std::vector<int64_t> grid_place(int64_t id) const;

  /// Name and options of the plugin's topology; empty for CPU.
  std::string topology_name() const;
  pjrt::NamedValues topology_options() const;
  /// Environment variables that the plugin needs.
  std::vector<std::pair<std::string, std::string>> environment() const;
};

/// The chip in `CHIP`, `CHIP:GRID` or `CHIP:COUNT`; the part after the colon is ignored. Throws an
/// Error that lists the chips.
const Chip& chip_of_target(const std::string& text);

/// Parses `CHIP:GRID` (`v5p:2x2x1`) or `CHIP:COUNT` (`h100:8`, `cpu:4`; default 1). Throws an Error
/// with the chips, or with the form that the chip needs.
Target parse_target(const std::string& text);

}  // namespace kinema::planning
