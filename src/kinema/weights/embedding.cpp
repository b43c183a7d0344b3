#include "kinema/weights/embedding.h"

#include <cstring>

#include "kinema/core/error.h"

namespace kinema::weights {

HostArray embedding_rows(const io::TensorView& table, const Dims& dims,
                         std::span<const int64_t> ids) {
  check(table.shape.dims.size() == 2, "[weights] {} is {} but must be a table of rows", table.name,
        to_string(table.shape));
  Shape shape{table.shape.dtype, dims};
  check(shape.elements() == static_cast<int64_t>(ids.size()), "[weights] {} ids do not make {}",
        ids.size(), to_string(shape));
  shape.dims.push_back(table.shape.dims[1]);
  HostArray rows(shape);
  const size_t bytes = ids.empty() ? 0 : rows.bytes.size() / ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    check(ids[i] >= 0 && ids[i] < table.shape.dims[0], "[weights] id {} of {}, which has {} rows",
          ids[i], table.name, table.shape.dims[0]);
    std::memcpy(rows.bytes.data() + i * bytes,
                table.bytes.data() + static_cast<size_t>(ids[i]) * bytes, bytes);
  }
  return rows;
}

}  // namespace kinema::weights
