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
  /// The program is optimized and partitioned already.
  bool backend_only = false;
  /// Device ids, [replicas][partitions] row by row; empty leaves the choice to the plugin.
  std::vector<int64_t> device_ids;
  /// 0 to 3 as XLA's O0 to O3, which TPU compilers go by; -1: the compiler's own.
  int64_t optimization_level = -1;
  /// -1 to 1: how much compile time a faster program may cost; 0: the compiler's own.
  double optimization_effort = 0;
  /// Compiler flags for this program only, without dashes: `xla_cpu_enable_fast_math` -> true. An
  /// unknown name makes `compile` throw, where XLA_FLAGS would end the process.
  std::map<std::string, FlagValue> flags;

  /// As the CompileOptionsProto that PJRT takes; equal options give equal bytes. Throws an Error
  /// when counts are not positive, `device_ids` has another length than replicas * partitions, or
  /// level and effort are out of range.
  std::string serialize() const;
};

}  // namespace kinema::pjrt
