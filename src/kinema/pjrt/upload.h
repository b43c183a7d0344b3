#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/client.h"

namespace kinema::pjrt {

/// A device array written in pieces, so that it is never completely in host memory.
///
/// If the plugin does not support such transfers, the pieces are collected on the host and sent at
/// the end.
class Upload {
 public:
  Upload(const Client& client, const Shape& shape);
  Upload(const Client& client, const Shape& shape, Device device,
         MemoryKind memory = MemoryKind::DEVICE);
  Upload(Upload&& other) noexcept;
  Upload& operator=(Upload&& other) = delete;
  ~Upload();

  /// Appends the next bytes, row-major; they are not used after the call. Throws an Error for more
  /// bytes than the shape has.
  void write(std::span<const std::byte> bytes);
  /// The array; throws an Error if bytes are missing.
  Buffer finish();

  /// False if the pieces are collected on the host.
  bool is_direct() const { return transfer_ != nullptr; }

 private:
  struct Transfer;

  Client client_;
  Shape shape_;
  Device device_;
  MemoryKind memory_;
  int64_t written_ = 0;
  std::unique_ptr<Transfer> transfer_;
  HostArray gathered_;
};

}  // namespace kinema::pjrt
