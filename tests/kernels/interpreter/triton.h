#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"

namespace kinema::interpreter {

using Array = HostArray;

/// Runs a GPU kernel, Triton IR in the generic form, for all programs of the grid. The function
/// takes a pointer for each operand, then one for each result.
///
/// A wrong kernel shows as follows:
///  - Every lane of a load or store that is not masked must lie in its array. A masked lane without
///    another value is NaN.
///  - Results start as NaN. An element that two programs store to, or that one reads and another
///    stores, is an error; so is a store to an operand.
///  - Every value is checked against its declared type.
///  - bf16 and f16 results are rounded after each operation; products accumulate in f32. f32
///    operands of a product are rounded to 10 bits of mantissa with inputPrecision tf32, and not
///    with ieee or tf32x3.
///
/// Throws an Error for all of these, and for a text that cannot be parsed.
std::vector<Array> run_triton(const std::string& text, const std::string& function,
                              std::array<int64_t, 3> grid, std::span<const Array> operands,
                              std::span<const Shape> results);

}  // namespace kinema::interpreter
