#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace kinema::pjrt {

/// A compiler flag's value, with the type of the flag.
using FlagValue = std::variant<bool, int64_t, double, std::string>;

/// Options of a compilation.
struct CompileOptions {
  int64_t replicas = 1;
  int64_t partitions = 1;
  /// Shardy reads `sdy.*`; false selects GSPMD and `mhlo.sharding`.
  bool shardy = true;
  /// The program is already optimized and partitioned.
  bool backend_only = false;
  /// Device ids, [replicas][partitions] row-major; empty: chosen by the plugin.
  std::vector<int64_t> device_ids;
  /// 0 to 3 as XLA's O0 to O3, which TPU compilers use; -1: the compiler's default.
  int64_t optimization_level = -1;
  /// -1 to 1: compile time against speed of the program; 0: the compiler's default.
  double optimization_effort = 0;
  /// Compiler flags for this program only, without dashes: `xla_cpu_enable_fast_math` -> true. With
  /// an unknown name `compile` throws, whereas XLA_FLAGS would end the process.
  std::map<std::string, FlagValue> flags;

  /// Serialized as CompileOptionsProto; equal options give equal bytes. Throws an Error if counts
  /// are not positive, if `device_ids` does not have replicas * partitions elements, or if level or
  /// effort is out of range.
  std::string serialize() const;
};

}  // namespace kinema::pjrt
