#pragma once

#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"

namespace kinema::interpreter {

using Array = HostArray;

/// Runs a TPU kernel, `stable_mosaic.*` in the generic form, over its whole grid. `operands` are
/// those of the custom call: prefetched scalars, then the input windows.
///
/// A wrong kernel shows as follows:
///  - The last grid index varies fastest. A window's block is copied in when its index changes; an
///    output's block is copied out then. Elements beyond the array are read as NaN (integers:
///    -77777) and not written.
///  - An output's block starts as NaN. Returning to a block is an error, and so is a block that is
///    shared by several indices of a `parallel` dimension.
///  - Scratch starts as NaN, and again whenever an index of a `parallel` dimension changes.
///  - Loads and stores are checked against their memref, every value against its declared type.
///  - bf16 results are rounded after each operation; products accumulate in f32. f32 operands of
///    a product are rounded to bf16, as in the chip's single pass, unless it has
///    `precision = #tpu.contract_precision<fp32>`.
///  - Attributes that the TPU's compiler needs (and may crash without) must be present.
///
/// Throws an Error for all of these, and for a text that cannot be parsed.
std::vector<Array> run_mosaic(const std::string& text, std::span<const Array> operands,
                              std::span<const Shape> results);

}  // namespace kinema::interpreter
