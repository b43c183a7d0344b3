#pragma once

#include <string>
#include <vector>

#include "kinema/io/json.h"
#include "kinema/pjrt/hlo_program.h"
#include "kinema/planning/chip.h"
#include "kinema/planning/program_walk.h"

namespace kinema::planning {

/// The expected time of a program on one device; `Roofline` is its lower bound.
struct ExpectedTime {
  /// The sum of the cores' instructions.
  double busy_seconds = 0;
  /// Collectives and copies, including those from and to host memory, as far as they do not overlap
  /// with instructions.
  double waiting_seconds = 0;
  double seconds() const { return busy_seconds + waiting_seconds; }

  /// Launches of kernels, copies and collectives, on devices where a launch takes time (GPU).
  double starts = 0;
  double start_seconds = 0;  // part of busy_seconds

  /// Calls of kernels, one entry per kind.
  struct Kernel {
    std::string name;  // "flash_forward (Mosaic)"
    double count = 0;
    double flops = 0;
    double seconds = 0;       // part of busy_seconds
    double peak_seconds = 0;  // at the chip's published peak
  };
  std::vector<Kernel> kernels;
  /// The source of rates that are not published for this chip; empty: none.
  std::string note;
};

/// From an optimized program. Zero for a chip without known rates (CPU).
///
/// TPU: the compiler's estimate of each instruction's cycles, or its bytes at the memory's rate,
/// whichever is longer; kernels by a model of their cycles (kernels/tpu/cost.h). GPU: products,
/// convolutions and kernels at measured fractions of the peak, everything else by its bytes, and a
/// launch time for each.
ExpectedTime expected_time(const pjrt::HloModule& program, const Chip& chip);

/// True for a call of an attention kernel with known FLOPs: kinema's, and cuDNN's.
bool is_attention_kernel(const Place& at, const Chip& chip);

io::Json to_json(const ExpectedTime& expected);
ExpectedTime read_expected_time(const io::Json& json);

}  // namespace kinema::planning
