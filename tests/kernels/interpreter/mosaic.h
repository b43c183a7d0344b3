#pragma once

#include <span>
#include <string>
#include <vector>

#include "kinema/core/host_array.h"

namespace kinema::interpreter {

using Array = HostArray;

/// Runs a kernel for TPUs, `stable_mosaic.*` in the generic form, over its whole grid. `operands`
/// are those of the custom call: prefetched scalars, then the windows that are read.
///
/// Where a wrong kernel shows:
///  - The last grid index runs fastest. A window's block is copied in when its index changes; an
///    output's block is copied out then. What lies beyond the array is read as NaN (integers:
///    -77777) and not written.
///  - An output's block starts as NaN. One that is come back to is an error, and so is one that is
///    shared by several indices of a `parallel` dimension.
///  - Scratch starts as NaN, and again whenever an index of a `parallel` dimension changes.
///  - Loads and stores are checked against their memref, every value against its declared type.
///  - bf16 is rounded at each operation that gives it; products accumulate in f32. f32 operands of
///    a product are rounded to bf16, as the chip's single pass does, unless it says
///    `precision = #tpu.contract_precision<fp32>`.
///  - Attributes that the TPU's compiler wants (and may crash without) must be there.
///
/// Throws an Error for all of these; a text that cannot be read is one too.
std::vector<Array> run_mosaic(const std::string& text, std::span<const Array> operands,
                              std::span<const Shape> results);

}  // namespace kinema::interpreter
