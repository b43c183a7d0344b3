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
  int64_t memory_space = 0;      // 0: device memory; others are the compiler's own
  int64_t elements() const;      // of an array
  int64_t bytes() const;         // of everything in it; tokens and opaque values take none
  int64_t device_bytes() const;  // what of it lies in memory space 0
};

struct HloInstruction {
  std::string name;
  std::string opcode;
  std::string target;  // of a custom call
  std::string origin;  // model path, `blocks/attn1/dot_general`
  std::string backend_config;
  std::string direction;  // of a comparison: "LT"
  HloShape shape;
  std::vector<size_t> operands;     // places in the computation
  std::vector<size_t> calls;        // computations
  int64_t number = 0;               // of a parameter, or of a tuple's element
  int64_t group = 0;                // devices that take part in a collective; 0: not said
  std::vector<int64_t> members;     // those of one group, or the two ends of one hop
  std::vector<int64_t> contracted;  // of a dot: axes of its first operand that are summed over
  std::optional<int64_t> value;     // of a whole-number constant with one element
};

struct HloComputation {
  std::string name;
  std::vector<HloInstruction> instructions;
  size_t root = 0;
};

/// An optimized program's instructions, operands before their users; where the compiler made a
/// schedule, in the order in which a device begins them.
struct HloModule {
  std::string name;
  std::vector<HloComputation> computations;
  size_t entry = 0;
};

/// Reads an optimized program in format `hlo` or `hlo_with_config`. Throws an Error for others, for
/// bytes that are no module, and for a module whose references lead nowhere.
HloModule read_hlo(const OptimizedProgram& program);

}  // namespace kinema::pjrt
