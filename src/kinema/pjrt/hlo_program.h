#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kinema/pjrt/executable.h"

namespace kinema::pjrt {

/// An array or tuple of an optimized program, on one device.
struct HloShape {
  std::string type;  // "bf16", "s32", "tuple", ...
  std::vector<int64_t> dims;
  std::vector<HloShape> parts;   // of a tuple
  int64_t memory_space = 0;      // 0: device memory; others are the compiler's
  int64_t elements() const;      // of an array
  int64_t bytes() const;         // total; tokens and opaque values have 0
  int64_t device_bytes() const;  // the part in memory space 0
};

struct HloInstruction {
  std::string name;
  std::string opcode;
  std::string target;  // of a custom call
  std::string origin;  // model path, `blocks/attn1/dot_general`
  std::string backend_config;
  std::string direction;  // of a comparison: "LT"
  HloShape shape;
  std::vector<size_t> operands;     // indices in the computation
  std::vector<size_t> calls;        // indices of computations
  int64_t number = 0;               // of a parameter, or of a tuple's element
  int64_t group = 0;                // devices of a collective's group; 0: not stated
  std::vector<int64_t> members;     // one group's, or the two ends of one hop
  std::vector<int64_t> contracted;  // of a dot: contracted axes of its first operand
  std::optional<int64_t> value;     // of an integer constant with one element
};

struct HloComputation {
  std::string name;
  std::vector<HloInstruction> instructions;
  size_t root = 0;
};

/// An optimized program's instructions, operands before their users; if the compiler made a
/// schedule, in the order in which a device starts them.
struct HloModule {
  std::string name;
  std::vector<HloComputation> computations;
  size_t entry = 0;
};

/// Reads an optimized program in format `hlo` or `hlo_with_config`. Throws an Error for other
/// formats, for bytes that are not a module, and for invalid references.
HloModule read_hlo(const OptimizedProgram& program);

}  // namespace kinema::pjrt
