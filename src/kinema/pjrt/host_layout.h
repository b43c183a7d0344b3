#pragma once

#include <pjrt_c_api.h>

#include <cstdint>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/pjrt/client_handle.h"
#include "kinema/pjrt/device.h"

namespace kinema::pjrt {

/// True if an array in this memory has the layout of ByteTiles.
bool has_byte_tiles(const ClientHandle& client, const Shape& shape, MemoryKind memory);

/// The layout of an array in host memory that a TPU slices, as in the program's text (graph/emit.h,
/// kTpuByteTiles). Not movable, because PJRT gets pointers into it.
class ByteTiles {
 public:
  explicit ByteTiles(const Shape& shape);
  ByteTiles(const ByteTiles&) = delete;
  ByteTiles& operator=(const ByteTiles&) = delete;

  PJRT_Buffer_MemoryLayout* layout() { return &layout_; }

 private:
  std::vector<int64_t> minor_to_major_;
  PJRT_Buffer_MemoryLayout layout_{};
};

}  // namespace kinema::pjrt
