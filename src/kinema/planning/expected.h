#pragma once

#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/pjrt/hlo_program.h"
#include "kinema/planning/chip.h"
#include "kinema/planning/program_walk.h"

namespace kinema::planning {

/// The time that a program can be expected to take on one device, where `Roofline` gives the least
/// that its peaks allow.
struct ExpectedTime {
  /// The cores' instructions, one after the other.
  double busy_seconds = 0;
  /// Collectives and copies, those from and to memory of the host too, as far as no instruction
  /// runs beside them.
  double waiting_seconds = 0;
  double seconds() const { return busy_seconds + waiting_seconds; }

  /// Kernels, copies and collectives that are launched, where a launch takes time (GPU).
  double starts = 0;
  double start_seconds = 0;  // of busy_seconds

  /// Calls of kernels, a line for each kind.
  struct Kernel {
    std::string name;  // "flash_forward (Mosaic)"
    double count = 0;
    double flops = 0;
    double seconds = 0;       // of busy_seconds
    double peak_seconds = 0;  // at the chip's published peak
  };
  std::vector<Kernel> kernels;
  /// Where rates come from that nobody published for this chip; empty: none.
  std::string note;
};

/// From an optimized program. Zero for a chip of which no rates are known (CPU).
///
/// TPU: the compiler's own estimate of each instruction's cycles, or what it moves at the memory's
/// rate, whichever is longer; kernels by a model of their cycles (kernels/tpu/cost.h). GPU:
/// products, convolutions and kernels at published shares of the peak, everything else by what it
/// moves, and for each the time in which it starts.
ExpectedTime expected_time(const pjrt::HloModule& program, const Chip& chip);

/// True for a call of an attention kernel whose work is known: kinema's own, and cuDNN's.
bool is_attention_kernel(const Place& at, const Chip& chip);

io::Json to_json(const ExpectedTime& expected);
ExpectedTime read_expected_time(const io::Json& json);

}  // namespace kinema::planning
