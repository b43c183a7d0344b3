#pragma once

#include <pjrt_c_api.h>

#include <cstdint>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/pjrt/client_handle.h"
#include "kinema/pjrt/device.h"

namespace kinema::pjrt {

/// Whether an array that goes to this memory lies as ByteTiles.
bool lies_in_byte_tiles(const ClientHandle& client, const Shape& shape, MemoryKind memory);

/// How an array lies in memory of the host that a TPU slices: as its program's text says
/// (graph/emit.h, kTpuByteTiles). Stays where it is: PJRT gets pointers into it.
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
