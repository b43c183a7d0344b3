#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace kinema::pjrt {

/// A compiler flag's value, typed as the flag is.
using FlagValue = std::variant<bool, int64_t, double, std::string>;

/// How a program is compiled.
struct CompileOptions {
  int64_t replicas = 1;
  int64_t partitions = 1;
  /// Shardy reads `sdy.*`; false selects GSPMD and `mhlo.sharding`.
  bool shardy = true;
  /// Device ids, [replicas][partitions] row by row; empty leaves the choice to the plugin.
  std::vector<int64_t> device_ids;
  /// Compiler flags for this program only, without dashes: `xla_cpu_enable_fast_math` -> true. An
  /// unknown name makes `compile` throw, where XLA_FLAGS would end the process.
  std::map<std::string, FlagValue> flags;

  /// As the CompileOptionsProto that PJRT takes; equal options give equal bytes. Throws an Error
  /// when counts are not positive or `device_ids` has another length than replicas * partitions.
  std::string serialize() const;
};

}  // namespace kinema::pjrt
