#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/pjrt/device.h"
#include "kinema/pjrt/event.h"

struct PJRT_Buffer;

namespace kinema::pjrt {

struct ClientHandle;

/// A dense array in device memory, owned. Its values may not be computed yet; reading waits for
/// them.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<const ClientHandle> client, PJRT_Buffer* buffer);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  explicit operator bool() const { return buffer_ != nullptr; }

  /// Shape on this device (one shard of a sharded array). Throws an Error for an element type that
  /// kinema does not have.
  Shape shape() const;
  /// Bytes on the device, including padding.
  int64_t device_bytes() const;
  int64_t device_id() const;
  /// `device`, `pinned_host`, ...; empty if unknown.
  std::string memory_kind() const;
  MemoryKind memory() const;

  /// Waits for the values and copies them, row-major. Throws the Error of the program that failed
  /// to compute them.
  HostArray to_host() const;
  /// The same into the caller's memory, which must have exactly the bytes of shape().
  void to_host(std::span<std::byte> into) const;
  /// Starts a copy; `into` must stay valid until the event is done.
  Event start_to_host(std::span<std::byte> into) const;

  /// Done when the values exist or their computation failed.
  Event ready() const;
  void await() const { ready().await(); }

  /// Frees the device memory now; then is_deleted() is true, and reading throws an Error.
  void drop();
  /// True after drop() and after a run to which this buffer was donated.
  bool is_deleted() const;

  PJRT_Buffer* handle() const { return buffer_; }

 private:
  void destroy() noexcept;

  // Shared: the last owner among client, buffers and executables closes the client.
  std::shared_ptr<const ClientHandle> client_;
  PJRT_Buffer* buffer_ = nullptr;
};

}  // namespace kinema::pjrt
