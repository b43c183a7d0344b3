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

/// A dense array in device memory, owned. It may still be on its way; reading waits for it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<const ClientHandle> client, PJRT_Buffer* buffer);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  explicit operator bool() const { return buffer_ != nullptr; }

  /// Shape on this device (one shard of a sharded array). Throws an Error for an element type that
  /// kinema has no name for.
  Shape shape() const;
  /// Bytes it takes on the device, padding included.
  int64_t device_bytes() const;
  int64_t device_id() const;
  /// `device`, `pinned_host`, ...; empty when the plugin does not say.
  std::string memory_kind() const;
  MemoryKind memory() const;

  /// Waits for the values and copies them, row-major. Throws the Error of the program that was to
  /// make them when it failed.
  HostArray to_host() const;
  /// The same into memory of the caller, which must hold exactly the bytes of shape().
  void to_host(std::span<std::byte> into) const;
  /// Starts a copy; `into` must stay until the event is done.
  Event start_to_host(std::span<std::byte> into) const;

  /// Done when the values are there or could not be made.
  Event ready() const;
  void await() const { ready().await(); }

  /// Gives the device memory back now; is_deleted() from here on. Reading then throws an Error.
  void drop();
  /// True after drop() and after a run that was given this buffer as a donation.
  bool is_deleted() const;

  PJRT_Buffer* handle() const { return buffer_; }

 private:
  void destroy() noexcept;

  // Shared: the last of client, buffers and executables frees the client.
  std::shared_ptr<const ClientHandle> client_;
  PJRT_Buffer* buffer_ = nullptr;
};

}  // namespace kinema::pjrt
