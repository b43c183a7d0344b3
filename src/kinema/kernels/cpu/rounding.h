#pragma once

#include <cstdint>

namespace kinema::kernels {

/// The number of parts of size `step` in `size`, rounded up.
inline int64_t ceil_div(int64_t size, int64_t step) { return (size + step - 1) / step; }
/// The smallest multiple of `step` that is at least `size`.
inline int64_t round_up(int64_t size, int64_t step) { return ceil_div(size, step) * step; }

}  // namespace kinema::kernels
