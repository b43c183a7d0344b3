#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"

namespace kinema::interpreter {

using Array = HostArray;

/// Runs a kernel for GPUs, Triton IR in the generic form, for all programs of the grid. The
/// function takes a pointer for each operand, then one for each result.
///
/// Where a wrong kernel shows:
///  - Every lane of a load or store that is not masked off must lie in its array. A lane masked off
///    without another value to take is NaN.
///  - Results start as NaN. An element that two programs store to, or that one reads and another
///    stores, is an error; so is a store to an operand.
///  - Every value is compared with its declared type.
///  - bf16 and f16 are rounded at each operation that gives them; products accumulate in f32. f32
///    operands of a product are rounded to 10 bits of mantissa with inputPrecision tf32, and not
///    with ieee or tf32x3.
///
/// Throws an Error for all of these; a text that cannot be read is one too.
std::vector<Array> run_triton(const std::string& text, const std::string& function,
                              std::array<int64_t, 3> grid, std::span<const Array> operands,
                              std::span<const Shape> results);

}  // namespace kinema::interpreter
