#include "kinema/replay/slices.h"

#include <algorithm>
#include <cstring>

#include "kinema/core/error.h"

namespace kinema::replay {

Arrays window_part(const Arrays& windows, int64_t number, int64_t length, int64_t context) {
  const int64_t steps = length + context;
  const int64_t first = number * length;
  Arrays out;
  int64_t rows = 0;
  for (const auto& [name, value] : windows) {
    Dims dims = value.shape.dims;
    check(dims.size() >= 2 && first + steps <= dims[1],
          "[replay] `{}` is {} but part {} of {} steps ends at {}", name, to_string(value.shape),
          number, steps, first + steps);
    rows = dims[0];
    const int64_t all = dims[1];
    dims[1] = steps;
    HostArray part(Shape{value.shape.dtype, dims});
    const int64_t bytes = part.shape.bytes() / (rows * steps);
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(part.bytes.data() + row * steps * bytes,
                  value.bytes.data() + (row * all + first) * bytes,
                  static_cast<size_t>(steps * bytes));
    }
    out[name] = std::move(part);
  }
  HostArray consec(Shape{DType::S32, {rows, steps}});
  std::ranges::fill(consec.as<int32_t>(), static_cast<int32_t>(number));
  out["consec"] = std::move(consec);
  return out;
}

}  // namespace kinema::replay
