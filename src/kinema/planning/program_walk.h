#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "kinema/pjrt/hlo_program.h"

/// Iterates over an optimized program in execution order.
namespace kinema::planning {

/// An instruction at its position in the execution.
struct Place {
  const pjrt::HloComputation* computation = nullptr;
  size_t index = 0;
  /// Executions per execution of the program: a loop's body counts once per iteration.
  double times = 1;
  /// Inside a fusion: its operands and result are not in memory.
  bool fused = false;
  /// The enclosing `async-start`, if any: the instruction runs concurrently until the `async-done`.
  const pjrt::HloInstruction* inside = nullptr;

  const pjrt::HloInstruction& instruction() const { return computation->instructions[index]; }
};
using Visitor = std::function<void(const Place& place)>;

/// Calls `visitor` for every instruction, in execution order; an instruction precedes those that it
/// calls. Loops with an unknown trip count have one iteration. The condition of a loop with a known
/// trip count is skipped: GPUs do not execute it (XLA's WhileThunk), TPUs need a few cycles.
void walk(const pjrt::HloModule& program, const Visitor& visitor);

/// The trip count of the `while` at index `place` of a computation: 0 if unknown.
int64_t trip_count(const pjrt::HloModule& program, const pjrt::HloComputation& computation,
                   size_t place);

/// An instruction's source through copies, conversions and bitcasts.
const pjrt::HloInstruction* behind(const pjrt::HloComputation& computation, size_t place);

/// The instruction whose `-done` awaits a collective: a `-start`, or the enclosing `async-start`.
/// Null for a synchronous one.
const pjrt::HloInstruction* start_of(const Place& collective);

/// The start that a `-done` awaits; null for other instructions.
const pjrt::HloInstruction* awaited(const Place& at);

/// The kind of a collective, `all-gather` also for `all-gather-start`; empty for other
/// instructions.
std::string_view collective_kind(std::string_view opcode);

}  // namespace kinema::planning
