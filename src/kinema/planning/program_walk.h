#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "kinema/pjrt/hlo_program.h"

/// How a device goes through an optimized program.
namespace kinema::planning {

/// An instruction where it runs.
struct Place {
  const pjrt::HloComputation* computation = nullptr;
  size_t index = 0;
  /// How often, while the program runs once: a loop's body counts as often as it runs.
  double times = 1;
  /// Inside a fusion: what it reads and writes is not in memory.
  bool fused = false;
  /// The `async-start` that this is inside of: it runs beside what follows, up to the `async-done`.
  const pjrt::HloInstruction* inside = nullptr;

  const pjrt::HloInstruction& instruction() const { return computation->instructions[index]; }
};
using Visitor = std::function<void(const Place& place)>;

/// Calls `visitor` for every instruction, in the order in which they run; an instruction comes
/// before those that it calls. Loops whose number of steps cannot be read count as one step. The
/// condition of a loop whose number the compiler knows is left out: GPUs do not run it (XLA's
/// WhileThunk), TPUs take a few cycles.
void walk(const pjrt::HloModule& program, const Visitor& visitor);

/// How often the `while` at `place` of a computation runs its body: 0 when that cannot be read.
int64_t trip_count(const pjrt::HloModule& program, const pjrt::HloComputation& computation,
                   size_t place);

/// An instruction looked up through copies, conversions and bitcasts.
const pjrt::HloInstruction* behind(const pjrt::HloComputation& computation, size_t place);

/// The instruction whose `-done` a collective is waited for at: a `-start`, or the `async-start`
/// that it is inside of. Null for one that nothing runs beside.
const pjrt::HloInstruction* start_of(const Place& collective);

/// The start that a `-done` waits for; null for other instructions.
const pjrt::HloInstruction* awaited(const Place& at);

/// The kind of a collective, `all-gather` for `all-gather-start` too; empty for others.
std::string_view collective_kind(std::string_view opcode);

}  // namespace kinema::planning
