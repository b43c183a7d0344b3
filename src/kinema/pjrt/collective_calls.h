#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/pjrt/executable.h"

namespace kinema::pjrt {

/// A collective of a partitioned program, as an operation on the bytes of its operands.
struct CollectiveCall {
  enum class Kind : uint8_t {
    ALL_REDUCE,
    ALL_GATHER,
    ALL_TO_ALL,  ///< of operands that are divided along `axis`
    EXCHANGE,    ///< an all-to-all with one operand per member: the i-th one goes to member i
    COLLECTIVE_PERMUTE,
    REDUCE_SCATTER
  };
  /// An operand's sizes in memory order, and the position among them of the dimension along which
  /// it is divided or concatenated.
  struct Operand {
    Dims dims;
    size_t axis = 0;
  };

  Kind kind = Kind::ALL_REDUCE;
  std::string name;       ///< the instruction's: `all-reduce.17`
  std::string reduction;  ///< `add`, `maximum`, `minimum`, `multiply`, `and`, `or`
  std::vector<Operand> operands;
  std::vector<std::vector<int64_t>> groups;        ///< partitions, in the order of their parts
  std::vector<std::pair<int64_t, int64_t>> pairs;  ///< from, to: of a permute
};

/// A partitioned program whose collectives are calls of the host.
struct ProgramWithCalls {
  std::string hlo;  ///< for Client::compile_partitioned
  /// Collective i is replaced by a call of the FFI handler `kCollectiveHandler` with the attributes
  /// `program` and `site` = i (both i64).
  std::vector<CollectiveCall> calls;
};

inline constexpr const char* kCollectiveHandler = "kinema_collective";
/// Replaces `partition-id`: returns u32[], the number of the device's partition; attribute
/// `program`.
inline constexpr const char* kPartitionHandler = "kinema_partition";

/// Replaces every collective of an optimized program of `partitions` by a call with `program` as an
/// attribute. Throws an Error with the collective's name if it is not supported, or if its groups
/// cannot be read.
ProgramWithCalls with_collective_calls(const OptimizedProgram& optimized, int64_t partitions,
                                       int64_t program);

}  // namespace kinema::pjrt
