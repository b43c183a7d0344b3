#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/pjrt/buffer.h"
#include "kinema/pjrt/client.h"

namespace kinema::pjrt {

/// A device array written piece by piece, so that it is never whole in host memory beside the
/// device's copy.
///
/// Where the plugin offers no such transfer, the pieces are kept on the host and sent at the end.
class Upload {
 public:
  Upload(const Client& client, const Shape& shape);
  Upload(const Client& client, const Shape& shape, Device device,
         MemoryKind memory = MemoryKind::DEVICE);
  Upload(Upload&& other) noexcept;
  Upload& operator=(Upload&& other) = delete;
  ~Upload();

  /// Appends the next bytes, row-major; the memory is the caller's again on return. Throws an Error
  /// when there are more than the shape has.
  void write(std::span<const std::byte> bytes);
  /// The array; throws an Error when bytes are missing.
  Buffer finish();

  /// False when the pieces are gathered on the host.
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
